import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Quantiles, distinct users and top paths of a sliding hour, from tiles of ten seconds: Kafka Streams
 * with the sketches of Apache DataSketches (Tile.java), as users of both combine them.
 *
 * <p>Arguments: BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS. The tile of a key is in a
 * window store, with RocksDB, changelog and cache, and is put back after each event. At each tick of
 * ten seconds the tiles of the hour are merged for the keys that had an event since the last one, and
 * go to the topic GROUP-answers. Other windows of whole tiles are answered by HTTP, from interactive
 * queries.
 */
public final class KafkaStreamsTiles {
    private static final String STORE = "tiles";
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
                                        STORE, Tile.WINDOW.plus(Tile.WINDOW), Tile.TICK, false),
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
        serve(streams);
        stopped.await();
    }

    /** Answers GET /KEY?first=&end= from the tiles in [first, end). */
    private static void serve(KafkaStreams streams) throws IOException {
        InetSocketAddress free = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        HttpServer server = HttpServer.create(free, 0);
        server.createContext(
                "/",
                exchange -> {
                    String[] asked = exchange.getRequestURI().getQuery().split("[=&]");
                    String key = exchange.getRequestURI().getPath().substring(1);
                    ReadOnlyWindowStore<String, byte[]> store =
                            streams.store(
                                    StoreQueryParameters.fromNameAndType(
                                            STORE, QueryableStoreTypes.windowStore()));
                    long end = Long.parseLong(asked[3]);
                    byte[] body = merged(store, key, Long.parseLong(asked[1]), end).answer(end);
                    exchange.sendResponseHeaders(200, body.length);
                    exchange.getResponseBody().write(body);
                    exchange.close();
                });
        server.start();
        System.out.println("answers at http://127.0.0.1:" + server.getAddress().getPort());
    }

    private static Tile merged(
            ReadOnlyWindowStore<String, byte[]> store, String key, long first, long end) {
        Tile whole = new Tile();
        Instant from = Instant.ofEpochMilli(first);
        try (WindowStoreIterator<byte[]> tiles =
                store.fetch(key, from, Instant.ofEpochMilli(end - 1))) {
            while (tiles.hasNext()) {
                whole.merge(Tile.of(tiles.next().value));
            }
        }
        return whole;
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
            // After a restart the tile that was open goes on, with all keys that it had.
            try (KeyValueIterator<Windowed<String>, byte[]> kept = store.all()) {
                while (kept.hasNext()) {
                    KeyValue<Windowed<String>, byte[]> tile = kept.next();
                    if (tile.key.window().start() > start) {
                        start = tile.key.window().start();
                        current.clear();
                    }
                    if (tile.key.window().start() == start) {
                        current.put(tile.key.key(), Tile.of(tile.value));
                    }
                }
            }
        }

        @Override
        public void process(Record<String, byte[]> read) {
            try {
                JsonNode event = JSON.readTree(read.value());
                long time = event.get("time").longValue();
                long of = time / Tile.TICK.toMillis() * Tile.TICK.toMillis();
                if (of > start) {
                    if (start >= 0) {
                        answer(start + Tile.TICK.toMillis());
                    }
                    start = of;
                    current.clear();
                }
                // What is read again after a kill belongs to older tiles.
                Tile tile =
                        of < start
                                ? kept(read.key(), of)
                                : current.computeIfAbsent(read.key(), key -> kept(key, of));
                tile.add(
                        event.get("took").doubleValue(),
                        event.get("user").textValue(),
                        event.get("path").textValue());
                store.put(read.key(), tile.bytes(), of);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        private Tile kept(String key, long of) {
            byte[] bytes = store.fetch(key, of);
            return bytes == null ? new Tile() : Tile.of(bytes);
        }

        private void answer(long end) {
            for (String key : current.keySet()) {
                Tile hour = merged(store, key, end - Tile.WINDOW.toMillis(), end);
                context.forward(new Record<>(key, hour.answer(end), end));
            }
        }
    }
}
