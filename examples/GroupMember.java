import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
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
  private boolean registeredHere;
  private int first;
  private long generation = -1, correlation, session = NEW_SESSION_MS;
  private long beatAt, leaseUntil = System.nanoTime();
  private volatile boolean stopped;

  private GroupMember(String[] words) {
    controllers = words[1].split(",");
    group = words[2];
    client = words[3];
    topic = words[4];
    id = client + "-" + UUID.randomUUID();
    Properties settings = new Properties();
    settings.put("bootstrap.servers", words[0]);
    settings.put("enable.auto.commit", "false");
    settings.put("auto.offset.reset", "earliest");
    data = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
  }

  public static void main(String[] words) throws InterruptedException {
    GroupMember member = new GroupMember(words);
    Thread running = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      member.stopped = true;
      try {
        running.join(10_000);
      } catch (InterruptedException ended) {
        Thread.currentThread().interrupt();
      }
    }));
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
      if (socket != null) {
        ask(DEREGISTER, out -> {
          write(out, group);
          write(out, id);
          writePositions(out);
        });
      }
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
    DataInputStream answer = ask(HEARTBEAT, out -> {
      out.writeLong(session);
      write(out, group);
      write(out, id);
      out.writeLong(generation);
      out.writeInt(0);
    });
    long told = answer.readLong();
    int code = answer.readShort();
    beatAt = sent + Math.min(1_000, session / 10) * 1_000_000;
    if (isForgotten(code)) return;
    // What is older than what it knows says nothing (G9).
    if ((code == NONE || code == REGISTER_AGAIN) && told < generation) return;
    if (code != NONE && code != REGISTER_AGAIN) throw new IOException("Heartbeat: " + code);
    prolong(sent);
    // Once to hear what it owns, and again to say that it holds the rest no more.
    while (code == REGISTER_AGAIN && register()) continue;
  }

  /** Connect to the group's controller; make the group where there is none. */
  private void find() throws IOException, InterruptedException {
    while (!stopped) {
      connect(controllers[first++ % controllers.length]);
      DataInputStream answer = ask(LIST, out -> {
        out.writeInt(1);
        write(out, group);
      });
      String where = controller(answer);
      if (where != null) {
        if (!where.equals(here)) connect(where);
        return;
      }
      Thread.sleep(100);
    }
  }

  private String controller(DataInputStream answer) throws IOException {
    read(answer);
    int count = answer.readInt();
    String host = "";
    for (int i = 0; i < count; i++) {
      read(answer);
      for (int list = 0; list < 2; list++) {
        for (int left = answer.readInt(); left > 0; left--) read(answer);
      }
      answer.readInt();
      host = read(answer);
      answer.readShort();
      answer.readLong();
    }
    if (answer.readShort() == NO_GROUP) {
      create();
      return null;
    }
    if (answer.readInt() == 0 || host.isEmpty()) return null;
    answer.readLong();
    read(answer);
    answer.readShort();
    for (int left = answer.readInt(); left > 0; left--) {
      read(answer);
      answer.readInt();
      read(answer);
      answer.skipBytes(16);
    }
    return host + ":" + answer.readInt();
  }

  private void create() throws IOException {
    DataInputStream answer = ask(CREATE, out -> {
      write(out, group);
      out.writeLong(NEW_SESSION_MS);
      out.writeInt(1);
      write(out, topic);
      out.writeByte(0);
      write(out, "incremental");
      write(out, "sticky");
    });
    read(answer);
    int code = answer.readShort();
    if (code != NONE && code != OTHER_SETTINGS) throw new IOException("CreateGroup: " + code);
  }

  /** Say what it holds and has done, and hear what it owns; returns whether it let something go. */
  private boolean register() throws IOException {
    // "I hold nothing" is said only over a connection on which nothing was heard.
    if (generation < 0 && registeredHere) connect(here);
    registeredHere = true;
    long sent = System.nanoTime();
    DataInputStream answer = ask(REGISTER, out -> {
      write(out, group);
      write(out, id);
      out.writeLong(generation);
      out.writeInt(1);
      write(out, topic);
      out.writeInt(0);
      out.writeInt(owned.size());
      for (TopicPartition each : owned.keySet()) {
        write(out, each.topic());
        out.writeInt(each.partition());
      }
      writePositions(out);
    });
    read(answer);
    read(answer);
    for (int left = answer.readInt(); left > 0; left--) {
      read(answer);
      answer.skipBytes(10);
    }
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
    boolean letsGo = !own.keySet().containsAll(owned.keySet());
    Map<TopicPartition, Told> before = new HashMap<>(owned);
    owned.clear();
    owned.putAll(own);
    data.assign(own.keySet());
    List<TopicPartition> fromTheStart = new ArrayList<>();
    own.forEach((each, told) -> {
      Told known = before.get(each);
      if (known != null && known.tenure == told.tenure) return;
      done.remove(each);
      if (told.offset < 0) fromTheStart.add(each);
      else data.seek(each, told.offset);
    });
    if (!fromTheStart.isEmpty()) data.seekToBeginning(fromTheStart);
    done.keySet().retainAll(own.keySet());
    return letsGo;
  }

  /** A member that the controller does not know holds nothing, and begins without memory. */
  private boolean isForgotten(int code) throws IOException {
    if (code != UNKNOWN_MEMBER && code != OTHER_CONNECTION && code != NO_GROUP) return false;
    generation = -1;
    leaseUntil = System.nanoTime();
    done.clear();
    obey(Map.of());
    disconnect();
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
        // Whoever it was that slept: what was fetched is fetched again, if it is still ours.
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
    DataInputStream answer = ask(COMMIT, out -> {
      write(out, group);
      out.writeInt(0);
      write(out, id);
      writePositions(out);
    });
    for (int left = answer.readInt(); left > 0; left--) {
      read(answer);
      answer.skipBytes(12);
    }
    int code = answer.readShort();
    if (isForgotten(code)) return;
    if (code != NONE) throw new IOException("CommitOffsets: " + code);
    for (int left = answer.readInt(); left > 0; left--) {
      String name = read(answer) + ":" + answer.readInt();
      answer.readLong();
      if (answer.readShort() != NONE) System.err.println("fenced: " + name);
    }
  }

  private void writePositions(DataOutputStream out) throws IOException {
    out.writeInt(done.size());
    for (Map.Entry<TopicPartition, Long> each : done.entrySet()) {
      write(out, each.getKey().topic());
      out.writeInt(each.getKey().partition());
      out.writeLong(each.getValue());
      out.writeLong(owned.get(each.getKey()).tenure);
    }
  }

  // --- bytes ----------------------------------------------------------------------------------------

  private interface Body {
    void write(DataOutputStream out) throws IOException;
  }

  private DataInputStream ask(int api, Body body) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeShort(api);
    out.writeShort(VERSION);
    out.writeLong(++correlation);
    write(out, client);
    body.write(out);
    DataOutputStream to = new DataOutputStream(socket.getOutputStream());
    byte[] frame = new byte[4 + bytes.size()];
    java.nio.ByteBuffer.wrap(frame).putInt(bytes.size()).put(bytes.toByteArray());
    to.write(frame);
    DataInputStream from = new DataInputStream(socket.getInputStream());
    byte[] message = new byte[from.readInt()];
    from.readFully(message);
    DataInputStream answer = new DataInputStream(new ByteArrayInputStream(message));
    int version = answer.readShort();
    if (version != VERSION || answer.readLong() != correlation) throw new IOException("it answers something else");
    return answer;
  }

  private void connect(String address) throws IOException {
    disconnect();
    here = address;
    int colon = address.lastIndexOf(':');
    Socket made = new Socket();
    made.connect(
        new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1))), 1_000);
    made.setTcpNoDelay(true);
    made.setSoTimeout((int) Math.max(1_000, session / 3));
    socket = made;
    registeredHere = false;
  }

  private void disconnect() {
    try {
      if (socket != null) socket.close();
    } catch (IOException ignored) {
      // It is gone anyway.
    }
    socket = null;
  }

  private static void write(DataOutputStream out, String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    out.writeShort(bytes.length);
    out.write(bytes);
  }

  private static String read(DataInputStream from) throws IOException {
    byte[] bytes = new byte[from.readShort()];
    from.readFully(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
