import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Counts of a minute as a user of Kafka Streams writes them from its documentation: one thread,
 * RocksDB, changelog and record cache as they come.
 *
 * <p>Arguments: BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS WINDOW. WINDOW is tumbling,
 * hopping (every 10 seconds) or sliding; tumbling_second, for latencies, gives each window once,
 * when it closes; repartitioned and repartitioned_once, exactly once, take keys from the field "key" of
 * events that have none. Else a count needs no field of the event, so nothing is decoded: that
 * is in its favour. Counts go to the topic GROUP-answers whenever the cache lets them go.
 */
public final class KafkaStreamsCount {
    private static final Duration DAY = Duration.ofDays(1);
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration STEP = Duration.ofSeconds(10);

    private KafkaStreamsCount() {}

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String topic = args[1];
        String group = args[2];
        String window = args[6];
        MappedByteBuffer progress;
        try (RandomAccessFile file = new RandomAccessFile(args[3], "rw")) {
            progress = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, Long.BYTES);
        }
        progress.order(ByteOrder.LITTLE_ENDIAN);

        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, group);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        // The events are older than the changelog of a window would be kept as it comes.
        settings.put(
                StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG,
                Duration.ofDays(20 * 365).toMillis());
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        long[] done = new long[1];
        KStream<String, byte[]> read =
                builder.stream(topic, Consumed.with(Serdes.String(), Serdes.ByteArray()));
        if (window.startsWith("repartitioned")) {
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1_000);
            read =
                    read.selectKey((none, value) -> keyOf(value))
                            .repartition(
                                    Repartitioned.with(Serdes.String(), Serdes.ByteArray())
                                            .withName("keyed"));
        }
        if (window.equals("repartitioned_once")) {
            settings.put(
                    StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        }
        KGroupedStream<String, byte[]> events =
                read.peek((key, value) -> progress.putLong(0, ++done[0])).groupByKey();
        KTable<Windowed<String>, Long> counts =
                switch (window) {
                    case "tumbling" ->
                            events.windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count();
                    // Partitions are not read in the order of their events.
                    case "repartitioned", "repartitioned_once" ->
                            events.windowedBy(TimeWindows.ofSizeAndGrace(MINUTE, DAY)).count();
                    case "hopping" ->
                            events.windowedBy(
                                            TimeWindows.ofSizeWithNoGrace(MINUTE).advanceBy(STEP))
                                    .count();
                    case "sliding" ->
                            events.windowedBy(
                                            SlidingWindows.ofTimeDifferenceWithNoGrace(MINUTE))
                                    .count();
                    case "tumbling_second" ->
                            events.windowedBy(TimeWindows.ofSizeWithNoGrace(SECOND))
                                    .emitStrategy(EmitStrategy.onWindowClose())
                                    // Kept for a second, windows expire before they are given; from
                                    // the cache, one of two partitions gave none (4.1.1).
                                    .count(
                                            Materialized
                                                    .<String, Long, WindowStore<Bytes, byte[]>>as(
                                                            "counts")
                                                    .withRetention(MINUTE)
                                                    .withCachingDisabled());
                    default -> throw new IllegalArgumentException(window);
                };
        counts.toStream()
                .map((windowed, count) -> KeyValue.pair(windowed.key(), answer(windowed, count)))
                .to(group + "-answers", Produced.with(Serdes.String(), Serdes.String()));

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

    /** The text between {"key":" and the next quote, with which each event of the workload begins. */
    private static String keyOf(byte[] value) {
        int start = "{\"key\":\"".length();
        int end = start;
        while (value[end] != '"') {
            end++;
        }
        return new String(value, start, end - start, StandardCharsets.UTF_8);
    }

    private static String answer(Windowed<String> windowed, Long count) {
        return "{\"start\":%d,\"end\":%d,\"value\":%d}"
                .formatted(windowed.window().start(), windowed.window().end(), count);
    }
}
