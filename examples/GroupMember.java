import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.FutureTask;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group with a controller, in Java: it speaks the requests of docs/reference/rpc.md and fetches by
 * Kafka's own client. It is a member of the same group as `GroupConsumer` of Python.
 *
 * <p>java GroupMember BOOTSTRAP CONTROLLER[,CONTROLLER...] GROUP CLIENT TOPIC
 *
 * <p>It prints a line for each message: partition, offset, tenure, value. At least once: it commits what it has printed.
 */
public final class GroupMember {
  private static final int LIST = 0, CREATE = 1, REGISTER = 3, HEARTBEAT = 4, COMMIT = 6, DEREGISTER = 7;
  private static final int NONE = 0, OTHER_SETTINGS = 23, UNKNOWN_MEMBER = 25, REGISTER_AGAIN = 27;
  private static final int NO_GROUP = 69, OTHER_CONNECTION = 82;
  private static final long NEW_SESSION_MS = 10_000;
  private static final short VERSION = 1;

  /** What was told of a partition. */
  private record Told(long offset, long tenure) {}

  private final String[] controllers;
  private final String group, client, topic, id;
  private final KafkaConsumer<String, String> data;
  private final Map<TopicPartition, Told> owned = new HashMap<>();
  private final Map<TopicPartition, Long> done = new HashMap<>();
  private Socket socket;
  private String here = "";
  private int first;
  private long generation = -1, correlation, session = NEW_SESSION_MS, beatAt, leaseUntil;
  private volatile boolean stopped;

  private GroupMember(String[] words) {
    controllers = words[1].split(",");
    group = words[2];
    client = words[3];
    topic = words[4];
    id = client + "-" + UUID.randomUUID();
    Map<String, Object> settings =
        Map.of("bootstrap.servers", words[0], "enable.auto.commit", "false", "auto.offset.reset", "earliest");
    data = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
  }

  public static void main(String[] words) throws InterruptedException {
    GroupMember member = new GroupMember(words);
    Thread running = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(new FutureTask<>(() -> {
      member.stopped = true;
      running.join(10_000);
      return null;
    })));
    member.run();
  }

  private void run() throws InterruptedException {
    while (!stopped) {
      try {
        follow();
        consume();
      } catch (IOException lost) {
        System.err.println(here + ": " + lost);
        disconnect();
        Thread.sleep(100);
      }
    }
    try {
      if (socket != null) ask(DEREGISTER, group, id, positions());
    } catch (IOException lost) {
      System.err.println("it is given up after the session timeout: " + lost);
    }
    data.close();
  }

  // --- the group ------------------------------------------------------------------------------------

  /** Find the controller, register, and send a heartbeat once a second. */
  private void follow() throws IOException, InterruptedException {
    if (socket == null) {
      find();
      if (generation < 0) register();
      beatAt = System.nanoTime();
    }
    if (System.nanoTime() - beatAt < 0) return;
    long sent = System.nanoTime();
    DataInputStream answer = ask(HEARTBEAT, session, group, id, generation, 0);
    long told = answer.readLong();
    int code = answer.readShort();
    beatAt = sent + Math.min(1_000, session / 10) * 1_000_000;
    if (isForgotten(code)) return;
    if (code != NONE && code != REGISTER_AGAIN) throw new IOException("Heartbeat: " + code);
    if (told < generation) return; // What is older than what it knows says nothing (G9).
    prolong(sent);
    // Once to hear what it owns, and again to say that it holds the rest no more.
    while (code == REGISTER_AGAIN && register()) continue;
  }

  /** Connect to the group's controller; make the group where there is none. */
  private void find() throws IOException, InterruptedException {
    while (!stopped) {
      connect(controllers[first++ % controllers.length]);
      String where = controller(ask(LIST, 1, group, false));
      if (where != null) {
        if (!where.equals(here)) connect(where);
        return;
      }
      Thread.sleep(100);
    }
  }

  /** Where the group's controller is; null if there is none yet. */
  private String controller(DataInputStream answer) throws IOException {
    String where = null;
    read(answer);
    for (int groups = answer.readInt(); groups > 0; groups--) {
      read(answer);
      skip(answer, 0); // its members
      skip(answer, 0); // its topics
      answer.skipBytes(4);
      String host = read(answer);
      int port = answer.readUnsignedShort();
      if (!host.isEmpty()) where = host + ":" + port;
      answer.skipBytes(8);
    }
    if (answer.readShort() == NO_GROUP) create();
    return where;
  }

  private void create() throws IOException {
    DataInputStream answer = ask(CREATE, group, NEW_SESSION_MS, 1, topic, false, "incremental", "sticky");
    read(answer);
    int code = answer.readShort();
    if (code != NONE && code != OTHER_SETTINGS) throw new IOException("CreateGroup: " + code);
  }

  /** Say what it holds and has done, and hear what it owns; returns whether it let something go. */
  private boolean register() throws IOException {
    long sent = System.nanoTime();
    List<Object> held = new ArrayList<>(List.of(owned.size()));
    owned.keySet().forEach(each -> held.addAll(List.of(each.topic(), each.partition())));
    DataInputStream answer = ask(REGISTER, group, id, generation, 1, topic, 0, held, positions());
    read(answer);
    read(answer);
    skip(answer, 10); // what it owns, as version 0 says it
    int code = answer.readShort();
    if (isForgotten(code)) return false;
    if (code != NONE) throw new IOException("RegisterConsumer: " + code);
    long told = answer.readLong();
    if (told < generation) throw new IOException("it answers of generation " + told);
    generation = told;
    session = answer.readLong();
    Map<TopicPartition, Told> own = new HashMap<>();
    for (int left = answer.readInt(); left > 0; left--) {
      TopicPartition each = new TopicPartition(read(answer), answer.readInt());
      own.put(each, new Told(answer.readLong(), answer.readLong()));
    }
    prolong(sent);
    return obey(own);
  }

  /** Stop what is not its own, and start anew where the tenure is another. */
  private boolean obey(Map<TopicPartition, Told> own) {
    boolean letsGo = owned.keySet().retainAll(own.keySet());
    done.keySet().retainAll(own.keySet());
    data.assign(own.keySet());
    own.forEach((each, told) -> {
      Told known = owned.put(each, told);
      if (known != null && known.tenure == told.tenure) return;
      done.remove(each);
      if (told.offset < 0) data.seekToBeginning(List.of(each));
      else data.seek(each, told.offset);
    });
    return letsGo;
  }

  /** A member that the controller does not know holds nothing, and begins without memory. */
  private boolean isForgotten(int code) throws IOException {
    if (code != UNKNOWN_MEMBER && code != OTHER_CONNECTION && code != NO_GROUP) return false;
    generation = -1;
    obey(Map.of());
    disconnect(); // "I hold nothing" is said only over a connection on which nothing was heard.
    return true;
  }

  /** It may hand messages out for 0.9 session timeouts after it sent what was answered (G5). */
  private void prolong(long sent) {
    leaseUntil = sent + session * 900_000;
  }

  // --- messages -------------------------------------------------------------------------------------

  private void consume() throws IOException, InterruptedException {
    if (owned.isEmpty() || System.nanoTime() - leaseUntil >= 0) {
      Thread.sleep(50);
      return;
    }
    ConsumerRecords<String, String> records = data.poll(Duration.ofMillis(100));
    for (ConsumerRecord<String, String> each : records) {
      TopicPartition partition = new TopicPartition(each.topic(), each.partition());
      if (System.nanoTime() - leaseUntil >= 0) {
        // It, or the machine, has slept: what was fetched is fetched again, if it is still ours.
        for (TopicPartition one : records.partitions()) {
          data.seek(one, done.getOrDefault(one, records.records(one).get(0).offset()));
        }
        return;
      }
      System.out.println(each.partition() + " " + each.offset() + " " + owned.get(partition).tenure + " " + each.value());
      done.put(partition, each.offset() + 1);
    }
    if (!records.isEmpty()) commit();
  }

  private void commit() throws IOException {
    DataInputStream answer = ask(COMMIT, group, 0, id, positions());
    skip(answer, 12); // what was committed, as version 0 says it
    int code = answer.readShort();
    if (isForgotten(code)) return;
    if (code != NONE) throw new IOException("CommitOffsets: " + code);
    for (int left = answer.readInt(); left > 0; left--) {
      String name = read(answer) + ":" + answer.readInt();
      answer.readLong();
      if (answer.readShort() != NONE) System.err.println("fenced: " + name);
    }
  }

  /** What it has done, as the requests say it. */
  private List<Object> positions() {
    List<Object> found = new ArrayList<>(List.of(done.size()));
    done.forEach((each, offset) -> found.addAll(
        List.of(each.topic(), each.partition(), offset, owned.get(each).tenure)));
    return found;
  }

  // --- bytes ----------------------------------------------------------------------------------------

  /** Send a request, and return what its answer says after the head. */
  private DataInputStream ask(int api, Object... fields) throws IOException {
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    write(new DataOutputStream(body), List.of((short) api, VERSION, ++correlation, client, List.of(fields)));
    ByteArrayOutputStream frame = new ByteArrayOutputStream();
    new DataOutputStream(frame).writeInt(body.size());
    body.writeTo(frame);
    frame.writeTo(socket.getOutputStream());
    DataInputStream from = new DataInputStream(socket.getInputStream());
    DataInputStream answer = new DataInputStream(new ByteArrayInputStream(from.readNBytes(from.readInt())));
    if (answer.readShort() != VERSION || answer.readLong() != correlation) throw new IOException("another answer");
    return answer;
  }

  private void connect(String address) throws IOException {
    disconnect();
    here = address;
    int colon = address.lastIndexOf(':');
    socket = new Socket();
    socket.connect(
        new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1))), 1_000);
    socket.setTcpNoDelay(true);
    socket.setSoTimeout((int) Math.max(1_000, session / 3));
  }

  private void disconnect() {
    try {
      if (socket != null) socket.close();
    } catch (IOException ignored) {
      // It is gone anyway.
    }
    socket = null;
  }

  private static void write(DataOutputStream out, List<?> fields) throws IOException {
    for (Object each : fields) {
      if (each instanceof List<?> several) write(out, several);
      else if (each instanceof Boolean flag) out.writeBoolean(flag);
      else if (each instanceof Short number) out.writeShort(number);
      else if (each instanceof Integer number) out.writeInt(number);
      else if (each instanceof Long number) out.writeLong(number);
      else {
        byte[] text = each.toString().getBytes(StandardCharsets.UTF_8);
        out.writeShort(text.length);
        out.write(text);
      }
    }
  }

  private static String read(DataInputStream from) throws IOException {
    return new String(from.readNBytes(from.readShort()), StandardCharsets.UTF_8);
  }

  /** Pass over a list: a text and so many bytes each. */
  private static void skip(DataInputStream from, int bytes) throws IOException {
    for (int left = from.readInt(); left > 0; left--) from.skipBytes(from.readShort() + bytes);
  }
}
