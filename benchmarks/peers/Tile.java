import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import org.apache.datasketches.common.ArrayOfStringsSerDe;
import org.apache.datasketches.frequencies.ErrorType;
import org.apache.datasketches.frequencies.ItemsSketch;
import org.apache.datasketches.hll.HllSketch;
import org.apache.datasketches.hll.Union;
import org.apache.datasketches.kll.KllDoublesSketch;
import org.apache.datasketches.memory.Memory;

/**
 * The sketches of a key's events in ten seconds, or of an hour of them, by Apache DataSketches: KLL
 * of k 200, HLL of lgK 12, and frequent items of 256 counters.
 */
final class Tile {
    static final Duration TICK = Duration.ofSeconds(10);
    static final Duration WINDOW = Duration.ofHours(1);
    private static final double[] RANKS = {0.5, 0.95, 0.99};
    private static final ObjectMapper JSON = new ObjectMapper();
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
        byte[][] parts = {took.toByteArray(), users.toCompactByteArray(), paths.toByteArray(TEXTS)};
        ByteBuffer buffer =
                ByteBuffer.allocate(Arrays.stream(parts).mapToInt(p -> p.length + 4).sum());
        for (byte[] part : parts) {
            buffer.putInt(part.length).put(part);
        }
        return buffer.array();
    }

    void add(double milliseconds, String user, String path) {
        took.update(milliseconds);
        users.update(user);
        paths.update(path);
    }

    void merge(Tile other) {
        took.merge(other.took);
        users.update(HllSketch.heapify(other.users.toCompactByteArray()));
        paths.merge(other.paths);
    }

    byte[] answer(long end) {
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
        return answer.toString().getBytes(StandardCharsets.UTF_8);
    }
}
