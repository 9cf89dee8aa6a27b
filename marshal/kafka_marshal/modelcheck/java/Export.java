import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import tlc2.util.FP64;
import tlc2.value.impl.BoolValue;
import tlc2.value.impl.RecordValue;
import tlc2.value.impl.TupleValue;
import tlc2.value.impl.Value;

/**
 * Overrides the operators of module {@code Export}: TLC finds this class by the module's name and
 * a method by the operator's.
 *
 * <p>Writes every distinct value once to the file that the system property {@code
 * kafka.marshal.export} names, a line each. The parts of a tuple or a record stand apart, since
 * rows repeat them: {@code <<} and the elements, or {@code [} and each name and value, all
 * separated by tabs, which TLC never prints inside a value. How often it was called goes to {@code
 * FILE.calls} at the end, so that a file without that companion is known to be cut short. Without
 * the property it does nothing.
 *
 * <p>Values are told apart by the 64-bit fingerprint that TLC itself tells states apart by, so
 * a value that was seen before is never turned into text.
 */
public final class Export {
  private static final String FILE = System.getProperty("kafka.marshal.export");
  private static final Set<Long> SEEN = ConcurrentHashMap.newKeySet();
  private static final Set<Long> ASKED = ConcurrentHashMap.newKeySet();
  private static final LongAdder CALLS = new LongAdder();
  private static final BufferedWriter WRITER = FILE == null ? null : open();

  private Export() {}

  public static Value Export(final Value value) {
    if (WRITER != null) {
      CALLS.increment();
      // The workers share parts of states; a value in normal form is not changed by being read.
      value.deepNormalize();
      if (SEEN.add(value.fingerPrint(FP64.New()))) {
        write(line(value));
      }
    }
    return BoolValue.ValTrue;
  }

  /** Overrides {@code FirstTime}: whether no worker asked about this value before. */
  public static Value FirstTime(final Value value) {
    if (WRITER == null) {
      return BoolValue.ValTrue;
    }
    value.deepNormalize();
    return ASKED.add(value.fingerPrint(FP64.New())) ? BoolValue.ValTrue : BoolValue.ValFalse;
  }

  private static String line(final Value value) {
    final StringBuilder line = new StringBuilder();
    if (value instanceof TupleValue) {
      line.append("<<");
      for (final Value element : ((TupleValue) value).elems) {
        line.append('\t').append(element);
      }
    } else if (value instanceof RecordValue) {
      final RecordValue record = (RecordValue) value;
      line.append('[');
      for (int i = 0; i < record.names.length; i++) {
        line.append('\t').append(record.names[i]).append('\t').append(record.values[i]);
      }
    } else {
      line.append(value);
    }
    return line.toString();
  }

  private static void write(final String line) {
    try {
      synchronized (WRITER) {
        WRITER.write(line);
        WRITER.write('\n');
      }
    } catch (final IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static BufferedWriter open() {
    try {
      final BufferedWriter writer = Files.newBufferedWriter(Path.of(FILE));
      // TLC leaves by System.exit, from more than one place.
      Runtime.getRuntime().addShutdownHook(new Thread(Export::close));
      return writer;
    } catch (final IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void close() {
    try {
      synchronized (WRITER) {
        WRITER.close();
      }
      Files.writeString(Path.of(FILE + ".calls"), CALLS.sum() + "\n");
    } catch (final IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
