import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's own assignors: members, topics, partitions of each topic, how often to measure.
 *
 * <p>Prints lines of strategy, case, CPU milliseconds: of the first call, the median, the fastest.
 */
public final class Assignors {
    private static final Node NODE = new Node(0, "localhost", 9092);

    public static void main(String[] arguments) {
        int members = Integer.parseInt(arguments[0]);
        int topics = Integer.parseInt(arguments[1]);
        int partitions = Integer.parseInt(arguments[2]);
        int times = Integer.parseInt(arguments[3]);
        List<PartitionInfo> infos = new ArrayList<>();
        List<String> names = new ArrayList<>();
        for (int topic = 0; topic < topics; topic++) {
            names.add(String.format("topic-%05d", topic));
            for (int partition = 0; partition < partitions; partition++) {
                infos.add(new PartitionInfo(names.get(topic), partition, NODE, new Node[] {NODE}, new Node[] {NODE}));
            }
        }
        Cluster cluster = new Cluster("c", List.of(NODE), infos, Set.of(), Set.of());
        Map<String, List<TopicPartition>> none = new TreeMap<>();
        for (int member = 0; member < members; member++) {
            none.put(String.format("member-%05d", member), List.of());
        }
        measure("range", "nothing", new RangeAssignor(), cluster, names, none, times);
        measure("round_robin", "nothing", new RoundRobinAssignor(), cluster, names, none, times);
        ConsumerPartitionAssignor sticky = new CooperativeStickyAssignor();
        Map<String, List<TopicPartition>> owned =
            measure("sticky", "nothing", sticky, cluster, names, none, times);
        measure("sticky", "the same", sticky, cluster, names, owned, times);
        Map<String, List<TopicPartition>> fewer = new TreeMap<>(owned);
        fewer.remove(String.format("member-%05d", members / 2));
        measure("sticky", "one leaves", sticky, cluster, names, fewer, times);
        Map<String, List<TopicPartition>> more = new TreeMap<>(owned);
        more.put("one-more", List.of());
        measure("sticky", "one joins", sticky, cluster, names, more, times);
        uniform(members, topics, partitions, times);
    }

    /** The assignor of brokers (KIP-848). Building what it is given is not measured. */
    private static void uniform(int members, int topics, int partitions, int times) {
        Map<Uuid, Integer> counts = new TreeMap<>();
        for (int topic = 0; topic < topics; topic++) {
            counts.put(new Uuid(1, topic), partitions);
        }
        Map<String, Map<Uuid, Set<Integer>>> none = new TreeMap<>();
        for (int member = 0; member < members; member++) {
            none.put(String.format("member-%05d", member), Map.of());
        }
        Map<String, Map<Uuid, Set<Integer>>> owned = measureUniform("nothing", counts, none, times);
        measureUniform("the same", counts, owned, times);
        Map<String, Map<Uuid, Set<Integer>>> fewer = new TreeMap<>(owned);
        fewer.remove(String.format("member-%05d", members / 2));
        measureUniform("one leaves", counts, fewer, times);
        Map<String, Map<Uuid, Set<Integer>>> more = new TreeMap<>(owned);
        more.put("one-more", Map.of());
        measureUniform("one joins", counts, more, times);
    }

    private static Map<String, Map<Uuid, Set<Integer>>> measureUniform(
            String situation,
            Map<Uuid, Integer> counts,
            Map<String, Map<Uuid, Set<Integer>>> owned,
            int times) {
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        double[] took = new double[times];
        double first = 0;
        Map<String, Map<Uuid, Set<Integer>>> result = new HashMap<>();
        for (int run = 0; run < times; run++) {
            Map<String, MemberSubscriptionAndAssignmentImpl> subscriptions = new HashMap<>();
            Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
            owned.forEach((member, assigned) -> {
                subscriptions.put(member, new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), Optional.empty(), counts.keySet(), new Assignment(assigned)));
                assigned.forEach((topic, places) -> places.forEach(place ->
                    owners.computeIfAbsent(topic, key -> new HashMap<>()).put(place, member)));
            });
            GroupSpecImpl group =
                new GroupSpecImpl(subscriptions, SubscriptionType.HOMOGENEOUS, owners);
            long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            var assigned = new UniformAssignor().assign(group, describer).members();
            took[run] = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before) / 1e6;
            first = run == 0 ? took[0] : first;
            if (run == 0) {
                assigned.forEach((member, assignment) -> result.put(member, assignment.partitions()));
            }
        }
        Arrays.sort(took);
        System.out.printf("uniform\t%s\t%.1f\t%.1f\t%.1f%n", situation, first, took[times / 2], took[0]);
        return result;
    }

    private static Map<String, List<TopicPartition>> measure(
            String strategy,
            String situation,
            ConsumerPartitionAssignor assignor,
            Cluster cluster,
            List<String> topics,
            Map<String, List<TopicPartition>> owned,
            int times) {
        double[] took = new double[times];
        double first = 0;
        Map<String, List<TopicPartition>> result = new HashMap<>();
        for (int run = 0; run < times; run++) {
            Map<String, Subscription> subscriptions = new HashMap<>();
            owned.forEach((member, partitions) -> subscriptions.put(
                member, new Subscription(topics, null, partitions, 1, Optional.empty())));
            GroupSubscription group = new GroupSubscription(subscriptions);
            long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            var assigned = assignor.assign(cluster, group).groupAssignment();
            took[run] = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before) / 1e6;
            first = run == 0 ? took[0] : first;
            if (run == 0) {
                assigned.forEach((member, assignment) -> result.put(member, assignment.partitions()));
            }
        }
        Arrays.sort(took);
        System.out.printf("%s\t%s\t%.1f\t%.1f\t%.1f%n", strategy, situation, first, took[times / 2], took[0]);
        return result;
    }
}
