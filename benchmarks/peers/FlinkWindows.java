import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Windows of Flink's DataStream API, in a mini-cluster of one JVM: counts, or quantiles, distinct
 * users and top paths of an hour by the sketches of Apache DataSketches (Tile.java).
 *
 * <p>Arguments: BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS WINDOW [LENGTH_MS]. WINDOW is tumbling or
 * hopping, a minute, or tumbling_second, for counts; hop, sliding windows of an hour as the documentation has them; or
 * tiles, tumbling windows of ten seconds, of which those of an hour, or of LENGTH_MS, are merged at
 * each tick. States are in RocksDB with incremental checkpoints each half minute, one slot has all
 * operators, and the answers go to the topic GROUP-answers. At its end a savepoint is in DATA_DIR. It
 * starts from the newest savepoint or checkpoint that is there.
 */
public final class FlinkWindows {
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration STEP = Duration.ofSeconds(10);
    private static MappedByteBuffer progress;

    private FlinkWindows() {}

    public static void main(String[] args) throws Exception {
        String data = args[4];
        String window = args[6];
        long length = args.length > 7 ? Long.parseLong(args[7]) : Tile.WINDOW.toMillis();
        try (RandomAccessFile file = new RandomAccessFile(args[3], "rw")) {
            progress = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, Long.BYTES);
        }
        progress.order(ByteOrder.LITTLE_ENDIAN);

        Configuration settings = new Configuration();
        Path kept = Path.of(data).resolveSibling("checkpoints");
        Optional<Path> newest = newest(Path.of(data), kept);
        if (newest.isPresent()) {
            settings.set(StateRecoveryOptions.SAVEPOINT_PATH, newest.get().toUri().toString());
        }
        settings.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        settings.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(30));
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, kept.toUri().toString());
        settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(512));
        StreamExecutionEnvironment flink =
                StreamExecutionEnvironment.createLocalEnvironment(1, settings);
        flink.getConfig().enableObjectReuse();

        KafkaSource<Event> source =
                KafkaSource.<Event>builder()
                        .setBootstrapServers(args[0])
                        .setTopics(args[1])
                        .setGroupId(args[2])
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setDeserializer(new Events())
                        .build();
        WatermarkStrategy<Event> clock =
                WatermarkStrategy.<Event>forMonotonousTimestamps()
                        .withTimestampAssigner((event, kafka) -> event.time);
        KeyedStream<Event, String> events =
                flink.fromSource(source, clock, "events").keyBy(event -> event.key);
        DataStream<Answer> answers =
                switch (window) {
                    case "tumbling_second" ->
                            count(events, TumblingEventTimeWindows.of(SECOND), 1);
                    case "tumbling" -> count(events, TumblingEventTimeWindows.of(MINUTE), 1);
                    case "hopping" -> count(events, SlidingEventTimeWindows.of(MINUTE, STEP), 6);
                    case "hop" ->
                            sketch(events, SlidingEventTimeWindows.of(Tile.WINDOW, Tile.TICK), 360)
                                    .map(FlinkWindows::answer);
                    case "tiles" ->
                            sketch(events, TumblingEventTimeWindows.of(Tile.TICK), 1)
                                    .keyBy(tile -> tile.key)
                                    .process(new Merged(length));
                    default -> throw new IllegalArgumentException(window);
                };
        String to = args[2] + "-answers";
        answers.sinkTo(
                KafkaSink.<Answer>builder()
                        .setBootstrapServers(args[0])
                        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                        .setRecordSerializer(
                                (answer, context, time) ->
                                        new ProducerRecord<>(to, utf8(answer.key), answer.value))
                        .build());

        JobClient job = flink.executeAsync("windows");
        // Stopped so, it flushes its answers; a hook would run beside those of Flink itself.
        sun.misc.Signal.handle(
                new sun.misc.Signal("TERM"),
                signal -> {
                    job.stopWithSavepoint(false, data + "/savepoint", SavepointFormatType.NATIVE)
                            .join();
                    Runtime.getRuntime().halt(0);
                });
        job.getJobExecutionResult().get();
    }

    private static DataStream<Answer> count(
            KeyedStream<Event, String> events, WindowAssigner<Object, TimeWindow> of, int copies) {
        return events.window(of).aggregate(new Count(copies), new Counted());
    }

    private static DataStream<Answer> sketch(
            KeyedStream<Event, String> events, WindowAssigner<Object, TimeWindow> of, int copies) {
        return events.window(of).aggregate(new Sketch(copies), new Sketched());
    }

    private static Answer answer(Answer sketched) throws Exception {
        byte[] value = Tile.of(sketched.value).answer(sketched.end);
        return new Answer(sketched.key, sketched.end, value);
    }

    /** What a run before has left, if one has. */
    private static Optional<Path> newest(Path... folders) throws IOException {
        List<Path> found = new ArrayList<>();
        for (Path folder : folders) {
            if (Files.isDirectory(folder)) {
                try (Stream<Path> paths = Files.walk(folder)) {
                    paths.filter(path -> path.endsWith("_metadata")).forEach(found::add);
                }
            }
        }
        return found.stream()
                .max(Comparator.comparingLong(path -> path.toFile().lastModified()))
                .map(Path::getParent);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** An event as Flink moves it: its serializer takes public fields. */
    public static class Event {
        public String key;
        public long time;
        public double took;
        public String user;
        public String path;
    }

    /** What a window came to: sketches, or the bytes of an answer. */
    public static class Answer {
        public String key;
        public long end;
        public byte[] value;

        public Answer() {}

        Answer(String key, long end, byte[] value) {
            this.key = key;
            this.end = end;
            this.value = value;
        }
    }

    private static final class Events implements KafkaRecordDeserializationSchema<Event> {
        private static final ObjectMapper JSON = new ObjectMapper();

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> read, Collector<Event> out)
                throws IOException {
            JsonNode json = JSON.readTree(read.value());
            Event event = new Event();
            event.key = new String(read.key(), StandardCharsets.UTF_8);
            event.time = json.get("time").longValue();
            if (json.has("took")) {
                event.took = json.get("took").doubleValue();
                event.user = json.get("user").textValue();
                event.path = json.get("path").textValue();
            }
            out.collect(event);
        }

        @Override
        public TypeInformation<Event> getProducedType() {
            return TypeInformation.of(Event.class);
        }
    }

    /** Counts each event once for the progress, though it is added to several windows. */
    private abstract static class Aggregate<A> implements AggregateFunction<Event, A, A> {
        private final int copies;
        private long added;

        Aggregate(int copies) {
            this.copies = copies;
        }

        void progress() {
            progress.putLong(0, ++added / copies);
        }

        @Override
        public A getResult(A state) {
            return state;
        }
    }

    private static final class Count extends Aggregate<Long> {
        Count(int copies) {
            super(copies);
        }

        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Event event, Long count) {
            progress();
            return count + 1;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    private static final class Sketch extends Aggregate<byte[]> {
        Sketch(int copies) {
            super(copies);
        }

        @Override
        public byte[] createAccumulator() {
            return new Tile().bytes();
        }

        @Override
        public byte[] add(Event event, byte[] bytes) {
            progress();
            Tile tile = Tile.of(bytes);
            tile.add(event.took, event.user, event.path);
            return tile.bytes();
        }

        @Override
        public byte[] merge(byte[] one, byte[] other) {
            Tile tile = Tile.of(one);
            tile.merge(Tile.of(other));
            return tile.bytes();
        }
    }

    private static final class Counted
            extends ProcessWindowFunction<Long, Answer, String, TimeWindow> {
        @Override
        public void process(
                String key, Context context, Iterable<Long> counts, Collector<Answer> out) {
            long start = context.window().getStart();
            String text = "{\"start\":%d,\"value\":%d}".formatted(start, counts.iterator().next());
            out.collect(new Answer(key, context.window().getEnd(), utf8(text)));
        }
    }

    private static final class Sketched
            extends ProcessWindowFunction<byte[], Answer, String, TimeWindow> {
        @Override
        public void process(
                String key, Context context, Iterable<byte[]> tiles, Collector<Answer> out) {
            out.collect(new Answer(key, context.window().getEnd(), tiles.iterator().next()));
        }
    }

    /** The tiles of the last hour of a key; those of a window are merged whenever one is added. */
    private static final class Merged extends KeyedProcessFunction<String, Answer, Answer> {
        private final long length;
        private transient MapState<Long, byte[]> tiles;

        Merged(long length) {
            this.length = length;
        }

        @Override
        public void open(OpenContext context) {
            tiles =
                    getRuntimeContext()
                            .getMapState(
                                    new MapStateDescriptor<>("tiles", Long.class, byte[].class));
        }

        @Override
        public void processElement(Answer tile, Context context, Collector<Answer> out)
                throws Exception {
            tiles.put(tile.end, tile.value);
            Tile merged = new Tile();
            List<Long> old = new ArrayList<>();
            for (Map.Entry<Long, byte[]> entry : tiles.entries()) {
                if (entry.getKey() <= tile.end - Tile.WINDOW.toMillis()) {
                    old.add(entry.getKey());
                } else if (entry.getKey() > tile.end - length) {
                    merged.merge(Tile.of(entry.getValue()));
                }
            }
            for (Long end : old) {
                tiles.remove(end);
            }
            out.collect(new Answer(tile.key, tile.end, merged.answer(tile.end)));
        }
    }
}
