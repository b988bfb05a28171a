import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.datasketches.common.ArrayOfStringsSerDe;
import org.apache.datasketches.frequencies.ErrorType;
import org.apache.datasketches.frequencies.ItemsSketch;
import org.apache.datasketches.hll.HllSketch;
import org.apache.datasketches.hll.Union;
import org.apache.datasketches.kll.KllDoublesSketch;
import org.apache.datasketches.memory.Memory;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Quantiles, distinct users and top paths of a sliding hour, from tiles of ten seconds: Kafka Streams
 * with the sketches of Apache DataSketches, as users of both combine them: KLL of k 200, HLL of
 * lgK 12, and frequent items of 256 counters.
 *
 * <p>Arguments: BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS. The tile of a key is in a
 * window store, with RocksDB, changelog and cache, and is put back after each event. At each tick of
 * ten seconds the tiles of the hour are merged for the keys that had an event since the last one, and
 * go to the topic GROUP-answers.
 */
public final class KafkaStreamsTiles {
    private static final String STORE = "tiles";
    private static final Duration TICK = Duration.ofSeconds(10);
    private static final Duration WINDOW = Duration.ofHours(1);
    private static final double[] RANKS = {0.5, 0.95, 0.99};
    private static final ObjectMapper JSON = new ObjectMapper();

    private KafkaStreamsTiles() {}

    public static void main(String[] args) throws Exception {
        MappedByteBuffer progress;
        try (RandomAccessFile file = new RandomAccessFile(args[3], "rw")) {
            progress = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, Long.BYTES);
        }
        progress.order(ByteOrder.LITTLE_ENDIAN);
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        // The events are older than the changelog of a window would be kept as it comes.
        settings.put(
                StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG,
                Duration.ofDays(20 * 365).toMillis());
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(
                Stores.windowStoreBuilder(
                                Stores.persistentWindowStore(
                                        STORE, WINDOW.plus(WINDOW), TICK, false),
                                Serdes.String(),
                                Serdes.ByteArray())
                        .withCachingEnabled());
        long[] done = new long[1];
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .peek((key, value) -> progress.putLong(0, ++done[0]))
                .process(Tiles::new, STORE)
                .to(args[2] + "-answers", Produced.with(Serdes.String(), Serdes.ByteArray()));

        CountDownLatch stopped = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Thread stop =
                new Thread(
                        () -> {
                            streams.close();
                            stopped.countDown();
                        });
        Runtime.getRuntime().addShutdownHook(stop);
        streams.start();
        stopped.await();
    }

    /** The sketches of a key's events in ten seconds, or of an hour of them. */
    private static final class Tile {
        private static final ArrayOfStringsSerDe TEXTS = new ArrayOfStringsSerDe();
        private final KllDoublesSketch took;
        private final Union users;
        private final ItemsSketch<String> paths;

        Tile() {
            took = KllDoublesSketch.newHeapInstance(200);
            users = new Union(12);
            paths = new ItemsSketch<>(256);
        }

        private Tile(KllDoublesSketch took, Union users, ItemsSketch<String> paths) {
            this.took = took;
            this.users = users;
            this.paths = paths;
        }

        static Tile of(byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            byte[][] parts = new byte[3][];
            for (int i = 0; i < parts.length; i++) {
                parts[i] = new byte[buffer.getInt()];
                buffer.get(parts[i]);
            }
            return new Tile(
                    KllDoublesSketch.heapify(Memory.wrap(parts[0])),
                    Union.heapify(parts[1]),
                    ItemsSketch.getInstance(Memory.wrap(parts[2]), TEXTS));
        }

        byte[] bytes() {
            byte[][] parts = {
                took.toByteArray(), users.toCompactByteArray(), paths.toByteArray(TEXTS)
            };
            ByteBuffer buffer =
                    ByteBuffer.allocate(Arrays.stream(parts).mapToInt(p -> p.length + 4).sum());
            for (byte[] part : parts) {
                buffer.putInt(part.length).put(part);
            }
            return buffer.array();
        }

        void add(JsonNode event) {
            took.update(event.get("took").doubleValue());
            users.update(event.get("user").textValue());
            paths.update(event.get("path").textValue());
        }

        void merge(Tile other) {
            took.merge(other.took);
            users.update(HllSketch.heapify(other.users.toCompactByteArray()));
            paths.merge(other.paths);
        }

        byte[] answer(long end) throws Exception {
            ObjectNode answer = JSON.createObjectNode();
            answer.put("end", end);
            ArrayNode quantiles = answer.putArray("quantiles");
            for (double quantile : took.getQuantiles(RANKS)) {
                quantiles.add(quantile);
            }
            answer.put("distinct", users.getEstimate());
            ArrayNode top = answer.putArray("top");
            Arrays.stream(paths.getFrequentItems(ErrorType.NO_FALSE_NEGATIVES))
                    .limit(10)
                    .forEach(row -> top.addArray().add(row.getItem()).add(row.getEstimate()));
            return JSON.writeValueAsBytes(answer);
        }
    }

    /** The tiles of a partition. */
    private static final class Tiles implements Processor<String, byte[], String, byte[]> {
        private final Map<String, Tile> current = new HashMap<>();
        private ProcessorContext<String, byte[]> context;
        private WindowStore<String, byte[]> store;
        private long start = -1;

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            this.context = context;
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<String, byte[]> read) {
            try {
                JsonNode event = JSON.readTree(read.value());
                long time = event.get("time").longValue();
                long of = time / TICK.toMillis() * TICK.toMillis();
                if (of > start) {
                    if (start >= 0) {
                        answer(start + TICK.toMillis());
                    }
                    start = of;
                    current.clear();
                }
                Tile tile = current.computeIfAbsent(read.key(), this::kept);
                tile.add(event);
                store.put(read.key(), tile.bytes(), start);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private Tile kept(String key) {
            byte[] bytes = store.fetch(key, start);
            return bytes == null ? new Tile() : Tile.of(bytes);
        }

        private void answer(long end) throws Exception {
            for (String key : current.keySet()) {
                Tile hour = new Tile();
                long first = end - WINDOW.toMillis();
                try (WindowStoreIterator<byte[]> tiles = store.fetch(key, first, end - 1)) {
                    while (tiles.hasNext()) {
                        hour.merge(Tile.of(tiles.next().value));
                    }
                }
                context.forward(new Record<>(key, hour.answer(end), end));
            }
        }
    }
}
