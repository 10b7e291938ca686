import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

/**
 * A Kafka client with one verb per run. Records come and go as lines of tab-separated fields:
 * partition or "-", key, value, headers. Bytes are base64, null is "-"; headers are name=base64
 * joined by ",", a null header value is "name=-".
 *
 * produce  BOOTSTRAP TOPIC IN OUT [pace.ms=N] [prop=value ...]   one line "partition offset" per record, in input order; "!" + error instead
 * consume  BOOTSTRAP TOPIC GROUP COUNT SECONDS OUT [prop=value ...]   partition offset key value headers timestamp
 * create   BOOTSTRAP TOPIC PARTITIONS [config=value ...]
 * delete   BOOTSTRAP TOPIC
 * committed BOOTSTRAP GROUP        partition lines "topic partition offset"
 * ends     BOOTSTRAP TOPIC         "partition earliest latest"
 * groups   BOOTSTRAP               "group state"
 * commit   BOOTSTRAP GROUP TOPIC PARTITION OFFSET
 * load     BOOTSTRAP TOPIC GROUP READ_TOPICS ACKS READS COMMITS   produces and consumes until killed; appends each
 *          acknowledged record, each record read and each acknowledged commit to its file
 */
public class KafkaClient {
    static final Base64.Encoder E = Base64.getEncoder();
    static final Base64.Decoder D = Base64.getDecoder();

    static String text(byte[] b) { return b == null ? "-" : E.encodeToString(b); }
    static byte[] bytes(String s) { return s.equals("-") ? null : D.decode(s); }

    public static void main(String[] a) throws Exception {
        switch (a[0]) {
            case "produce" -> produce(a);
            case "consume" -> consume(a);
            case "create" -> create(a);
            case "delete" -> { try (Admin x = admin(a[1])) { x.deleteTopics(List.of(a[2])).all().get(30, TimeUnit.SECONDS); } }
            case "committed" -> committed(a);
            case "ends" -> ends(a);
            case "groups" -> { try (Admin x = admin(a[1])) { for (var g : x.listConsumerGroups().all().get(30, TimeUnit.SECONDS)) System.out.println(g.groupId() + "\t" + g.state().map(Object::toString).orElse("-")); } }
            case "commit" -> { try (Admin x = admin(a[1])) { x.alterConsumerGroupOffsets(a[2], Map.of(new TopicPartition(a[3], Integer.parseInt(a[4])), new OffsetAndMetadata(Long.parseLong(a[5])))).all().get(30, TimeUnit.SECONDS); } }
            case "load" -> load(a);
            default -> throw new IllegalArgumentException(a[0]);
        }
        System.out.println("ok");
    }

    static Admin admin(String bootstrap) {
        return Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", "20000"));
    }

    static Properties props(String bootstrap, String[] a, int from) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        for (int i = from; i < a.length; i++) {
            int e = a[i].indexOf('=');
            p.put(a[i].substring(0, e), a[i].substring(e + 1));
        }
        return p;
    }

    static void produce(String[] a) throws Exception {
        Properties p = props(a[1], a, 5);
        p.putIfAbsent("acks", "all");
        p.putIfAbsent("linger.ms", "5");
        p.putIfAbsent("max.request.size", "8000000");
        Object pace = p.remove("pace.ms");
        String[] results;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
             BufferedReader in = Files.newBufferedReader(Path.of(a[3]));
             PrintWriter out = new PrintWriter(new BufferedWriter(new FileWriter(a[4])))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            String line;
            while ((line = in.readLine()) != null) {
                String[] f = line.split("\t", -1);
                Integer partition = f[0].equals("-") ? null : Integer.valueOf(f[0]);
                ProducerRecord<byte[], byte[]> r = new ProducerRecord<>(a[2], partition, bytes(f[1]), bytes(f[2]));
                if (!f[3].isEmpty()) for (String h : f[3].split(",")) {
                    int e = h.indexOf('=');
                    r.headers().add(h.substring(0, e), bytes(h.substring(e + 1)));
                }
                sent.add(producer.send(r));
                if (pace != null) Thread.sleep(Long.parseLong((String) pace));
                if (sent.size() == 20000) { drain(sent, out); }
            }
            drain(sent, out);
        }
    }

    static void drain(List<Future<RecordMetadata>> sent, PrintWriter out) throws Exception {
        for (Future<RecordMetadata> f : sent) {
            try {
                RecordMetadata m = f.get();
                out.println(m.partition() + "\t" + m.offset());
            } catch (ExecutionException e) {
                out.println("!\t" + e.getCause());
            }
        }
        out.flush();
        sent.clear();
    }

    static void consume(String[] a) throws Exception {
        Properties p = props(a[1], a, 7);
        p.put("group.id", a[3]);
        p.putIfAbsent("auto.offset.reset", "earliest");
        p.putIfAbsent("enable.auto.commit", "false");
        int wanted = Integer.parseInt(a[4]);
        long end = System.currentTimeMillis() + Long.parseLong(a[5]) * 1000;
        int got = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             PrintWriter out = new PrintWriter(new BufferedWriter(new FileWriter(a[6])))) {
            consumer.subscribe(List.of(a[2].split(",")), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> c) { System.out.println("revoked\t" + c); }
                public void onPartitionsAssigned(Collection<TopicPartition> c) { System.out.println("assigned\t" + c); System.out.flush(); }
            });
            while (got < wanted && System.currentTimeMillis() < end) {
                ConsumerRecords<byte[], byte[]> rs = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<byte[], byte[]> r : rs) {
                    StringBuilder h = new StringBuilder();
                    for (Header x : r.headers()) {
                        if (h.length() > 0) h.append(',');
                        h.append(x.key()).append('=').append(text(x.value()));
                    }
                    out.println(r.partition() + "\t" + r.offset() + "\t" + text(r.key()) + "\t" + text(r.value()) + "\t" + h + "\t" + r.timestamp());
                    got++;
                }
                out.flush();
                if (!rs.isEmpty()) consumer.commitSync();
            }
        }
        System.out.println("consumed\t" + got);
    }

    static void create(String[] a) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (int i = 4; i < a.length; i++) {
            int e = a[i].indexOf('=');
            configs.put(a[i].substring(0, e), a[i].substring(e + 1));
        }
        try (Admin x = admin(a[1])) {
            x.createTopics(List.of(new NewTopic(a[2], Integer.parseInt(a[3]), (short) 1).configs(configs))).all().get(30, TimeUnit.SECONDS);
        }
    }

    static void committed(String[] a) throws Exception {
        try (Admin x = admin(a[1])) {
            var all = x.listConsumerGroupOffsets(a[2]).partitionsToOffsetAndMetadata().get(30, TimeUnit.SECONDS);
            for (var e : all.entrySet()) if (e.getValue() != null) System.out.println(e.getKey().topic() + "\t" + e.getKey().partition() + "\t" + e.getValue().offset());
        }
    }

    static void ends(String[] a) throws Exception {
        try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(props(a[1], a, 3), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> ps = new ArrayList<>();
            for (PartitionInfo i : c.partitionsFor(a[2])) ps.add(new TopicPartition(a[2], i.partition()));
            var first = c.beginningOffsets(ps);
            var last = c.endOffsets(ps);
            for (TopicPartition t : ps) System.out.println(t.partition() + "\t" + first.get(t) + "\t" + last.get(t));
        }
    }

    /** A note that did not reach its file would be taken for a fault of the broker. */
    static void noted(PrintWriter file) {
        if (file.checkError()) {
            System.out.println("a note could not be written: is the disk full?");
            Runtime.getRuntime().halt(3);
        }
    }

    static void load(String[] a) throws Exception {
        Properties p = new Properties();
        p.putAll(Map.of("bootstrap.servers", a[1], "acks", "all", "linger.ms", "1", "delivery.timeout.ms", "60000", "request.timeout.ms", "5000", "reconnect.backoff.max.ms", "200", "enable.idempotence", "true"));
        PrintWriter acks = new PrintWriter(new FileWriter(a[5], true));
        Thread sender = new Thread(() -> {
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (long n = 0; ; n++) {
                    byte[] value = ("k" + n).getBytes(StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(a[2], ("key" + n % 50).getBytes(StandardCharsets.UTF_8), value), (m, e) -> {
                        synchronized (acks) {
                            if (e == null) { acks.println(a[2] + "\t" + m.partition() + "\t" + m.offset() + "\t" + new String(value, StandardCharsets.UTF_8)); noted(acks); }
                            else System.out.println("failed\t" + e);
                        }
                    });
                    if (n % 4 == 0) Thread.sleep(1);
                }
            } catch (Exception e) { e.printStackTrace(System.out); System.exit(1); }
        });
        sender.setDaemon(true);
        sender.start();
        Properties c = new Properties();
        c.putAll(Map.of("bootstrap.servers", a[1], "group.id", a[3], "auto.offset.reset", "earliest", "enable.auto.commit", "false", "reconnect.backoff.max.ms", "200", "request.timeout.ms", "5000", "session.timeout.ms", "20000", "default.api.timeout.ms", "5000"));
        PrintWriter reads = new PrintWriter(new FileWriter(a[6], true));
        PrintWriter commits = new PrintWriter(new FileWriter(a[7], true));
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(c, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(a[4].split(",")));
            System.out.println("started");
            System.out.flush();
            while (true) {
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(100))) {
                    reads.println(r.topic() + "\t" + r.partition() + "\t" + r.offset() + "\t" + new String(r.value(), StandardCharsets.UTF_8));
                    next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                }
                noted(reads);
                if (next.isEmpty()) continue;
                try {
                    consumer.commitSync(next);
                    for (var e : next.entrySet()) commits.println(e.getKey().topic() + "\t" + e.getKey().partition() + "\t" + e.getValue().offset());
                    noted(commits);
                } catch (KafkaException e) { System.out.println("commit failed\t" + e); }
            }
        }
    }
}
