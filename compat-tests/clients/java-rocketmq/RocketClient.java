import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

/**
 * A RocketMQ client with one verb per run. Messages come as lines of tab-separated fields: queue
 * selector or "-", tags, keys, body, properties; they go out as lines of: queue, offset, tags, keys,
 * body, properties, message id, reconsume times, born time. Bytes are base64, null is "-".
 *
 * send     NAMESRV TOPIC IN OUT [MODE(sync|steady|async|oneway|batch) [threads]]   steady: slowly, each until it is acknowledged; one line "queue offset status msgId" per message, "!" + error instead
 * consume  NAMESRV TOPIC GROUP COUNT SECONDS OUT [tags=EXPR] [orderly] [failing=N] [from=last] [maxretry=N]
 * consume  NAMESRV TOPIC GROUP COUNT SECONDS OUT litepull
 * offsets  NAMESRV TOPIC GROUP     "queue committed min max"
 * load     NAMESRV TOPIC GROUP READ_TOPICS ACKS READS   sends and consumes until killed; appends each acknowledged
 *          message and each message read to its file
 */
public class RocketClient {
    static final Base64.Encoder E = Base64.getEncoder();
    static final Base64.Decoder D = Base64.getDecoder();

    static String text(byte[] b) { return b == null ? "-" : E.encodeToString(b); }
    static String text(String s) { return s == null ? "-" : E.encodeToString(s.getBytes(java.nio.charset.StandardCharsets.UTF_8)); }
    static byte[] bytes(String s) { return s.equals("-") ? null : D.decode(s); }
    static String string(String s) { return s.equals("-") ? null : new String(D.decode(s), java.nio.charset.StandardCharsets.UTF_8); }

    public static void main(String[] a) throws Exception {
        System.setProperty("rocketmq.client.logUseSlf4j", "true");
        switch (a[0]) {
            case "send" -> send(a);
            case "consume" -> { if (a.length > 7 && a[7].equals("litepull")) litepull(a); else consume(a); }
            case "offsets" -> offsets(a);
            case "load" -> load(a);
            default -> throw new IllegalArgumentException(a[0]);
        }
        System.out.println("ok");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static Message message(String topic, String[] f) {
        Message m = new Message(topic, bytes(f[3]));
        if (!f[1].equals("-")) m.setTags(string(f[1]));
        if (!f[2].equals("-")) m.setKeys(string(f[2]));
        if (!f[4].isEmpty()) for (String h : f[4].split(",")) {
            int e = h.indexOf('=');
            String name = h.substring(0, e), value = string(h.substring(e + 1));
            if (name.equals("DELAY")) m.setDelayTimeLevel(Integer.parseInt(value)); else m.putUserProperty(name, value);
        }
        return m;
    }

    static String line(SendResult r) {
        return r.getMessageQueue().getQueueId() + "\t" + r.getQueueOffset() + "\t" + r.getSendStatus() + "\t" + r.getMsgId() + "\t" + r.getOffsetMsgId();
    }

    static SendResult one(DefaultMQProducer p, String[] f, Message m) throws Exception {
        if (f[0].equals("-")) return p.send(m);
        int wanted = Integer.parseInt(f[0]);
        return p.send(m, (qs, x, arg) -> {
            for (MessageQueue q : qs) if (q.getQueueId() == wanted % qs.size()) return q;
            return qs.get(0);
        }, null);
    }

    static void send(String[] a) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("compat-producer");
        p.setNamesrvAddr(a[1]);
        p.setSendMsgTimeout(10000);
        p.setMaxMessageSize(8 << 20);
        p.start();
        List<String> lines = Files.readAllLines(Path.of(a[3]));
        String[] results = new String[lines.size()];
        String mode = a.length > 5 ? a[5] : "sync";
        int threads = a.length > 6 ? Integer.parseInt(a[6]) : 1;
        switch (mode) {
            case "steady" -> {
                long end = System.currentTimeMillis() + 60000;
                for (int i = 0; i < results.length; i++) {
                    String[] f = lines.get(i).split("\t", -1);
                    while (results[i] == null) {
                        try { results[i] = line(one(p, f, message(a[2], f))); Thread.sleep(1); }
                        catch (Exception e) { if (System.currentTimeMillis() > end) results[i] = "!\t" + oneLine(e); else Thread.sleep(50); }
                    }
                }
            }
            case "sync" -> {
                ExecutorService pool = Executors.newFixedThreadPool(threads);
                for (int t = 0; t < threads; t++) {
                    final int lane = t;
                    pool.submit(() -> {
                        for (int i = 0; i < lines.size(); i++) {
                            String[] f = lines.get(i).split("\t", -1);
                            int owner = f[0].equals("-") ? i % threads : Integer.parseInt(f[0]) % threads;
                            if (owner != lane) continue;
                            try { results[i] = line(one(p, f, message(a[2], f))); } catch (Throwable e) { results[i] = "!\t" + oneLine(e); }
                        }
                    });
                }
                pool.shutdown();
                pool.awaitTermination(600, TimeUnit.SECONDS);
            }
            case "async" -> {
                Semaphore inFlight = new Semaphore(256);
                for (int i = 0; i < results.length; i++) {
                    final int at = i;
                    inFlight.acquire();
                    String[] f = lines.get(i).split("\t", -1);
                    p.send(message(a[2], f), new SendCallback() {
                        public void onSuccess(SendResult r) { results[at] = line(r); inFlight.release(); }
                        public void onException(Throwable e) { results[at] = "!\t" + oneLine(e); inFlight.release(); }
                    });
                }
                inFlight.acquire(256);
            }
            case "oneway" -> {
                for (int i = 0; i < results.length; i++) { p.sendOneway(message(a[2], lines.get(i).split("\t", -1))); results[i] = "-"; }
                Thread.sleep(1000);
            }
            case "batch" -> {
                for (int i = 0; i < results.length; i += 50) {
                    List<Message> some = new ArrayList<>();
                    for (int j = i; j < Math.min(results.length, i + 50); j++) some.add(message(a[2], lines.get(j).split("\t", -1)));
                    SendResult r = p.send(some);
                    String[] ids = r.getOffsetMsgId() == null ? r.getMsgId().split(",") : r.getOffsetMsgId().split(",");
                    if (ids.length != some.size()) throw new IllegalStateException("ids " + ids.length + " for " + some.size());
                    for (int j = 0; j < some.size(); j++) results[i + j] = r.getMessageQueue().getQueueId() + "\t" + (r.getQueueOffset() + j) + "\t" + r.getSendStatus() + "\t" + ids[j] + "\t" + ids[j];
                }
            }
            default -> throw new IllegalArgumentException(mode);
        }
        try (PrintWriter out = new PrintWriter(new BufferedWriter(new FileWriter(a[4])))) { for (String r : results) out.println(r); }
        p.shutdown();
    }

    static String oneLine(Throwable e) { return String.valueOf(e).replace('\n', ' ').replace('\t', ' '); }

    static String line(MessageExt m) {
        StringBuilder h = new StringBuilder();
        for (Map.Entry<String, String> x : new TreeMap<>(m.getProperties()).entrySet()) {
            if (h.length() > 0) h.append(',');
            h.append(x.getKey()).append('=').append(text(x.getValue()));
        }
        return m.getQueueId() + "\t" + m.getQueueOffset() + "\t" + text(m.getTags()) + "\t" + text(m.getKeys()) + "\t" + text(m.getBody()) + "\t" + h + "\t" + m.getMsgId() + "\t" + m.getReconsumeTimes() + "\t" + m.getBornTimestamp();
    }

    static void consume(String[] a) throws Exception {
        String tags = "*";
        boolean orderly = false;
        int failing = 0;
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(a[3]);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (int i = 7; i < a.length; i++) {
            if (a[i].startsWith("tags=")) tags = a[i].substring(5);
            else if (a[i].equals("orderly")) orderly = true;
            else if (a[i].startsWith("failing=")) failing = Integer.parseInt(a[i].substring(8));
            else if (a[i].equals("from=last")) c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
            else if (a[i].startsWith("maxretry=")) c.setMaxReconsumeTimes(Integer.parseInt(a[i].substring(9)));
            else throw new IllegalArgumentException(a[i]);
        }
        c.setNamesrvAddr(a[1]);
        c.setPullBatchSize(32);
        c.subscribe(a[2], tags);
        int wanted = Integer.parseInt(a[4]);
        AtomicInteger got = new AtomicInteger();
        AtomicInteger toFail = new AtomicInteger(failing);
        CountDownLatch done = new CountDownLatch(1);
        PrintWriter out = new PrintWriter(new BufferedWriter(new FileWriter(a[6])));
        java.util.function.Function<List<MessageExt>, Boolean> take = ms -> {
            if (toFail.get() > 0 && toFail.getAndDecrement() > 0) return false;
            synchronized (out) {
                for (MessageExt m : ms) out.println(line(m));
                out.flush();
                if (got.addAndGet(ms.size()) >= wanted) done.countDown();
            }
            return true;
        };
        if (orderly) c.registerMessageListener((MessageListenerOrderly) (ms, x) -> take.apply(ms) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        else c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> take.apply(ms) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        c.start();
        System.out.println("started");
        System.out.flush();
        long end = System.currentTimeMillis() + Long.parseLong(a[5]) * 1000;
        List<Integer> shown = null;
        do {
            List<Integer> held = new ArrayList<>();
            for (MessageQueue q : c.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) if (q.getTopic().equals(a[2])) held.add(q.getQueueId());
            Collections.sort(held);
            if (!held.equals(shown)) { System.out.println("assigned\t" + held); System.out.flush(); }
            shown = held;
        } while (!done.await(50, TimeUnit.MILLISECONDS) && System.currentTimeMillis() < end);
        Thread.sleep(300);
        c.shutdown();
        System.out.println("consumed\t" + got.get());
    }

    static void litepull(String[] a) throws Exception {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(a[3]);
        c.setNamesrvAddr(a[1]);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setAutoCommit(false);
        c.subscribe(a[2], "*");
        c.start();
        int wanted = Integer.parseInt(a[4]), got = 0;
        long end = System.currentTimeMillis() + Long.parseLong(a[5]) * 1000;
        try (PrintWriter out = new PrintWriter(new BufferedWriter(new FileWriter(a[6])))) {
            while (got < wanted && System.currentTimeMillis() < end) {
                for (MessageExt m : c.poll(500)) { out.println(line(m)); got++; }
                c.commitSync();
            }
        }
        Thread.sleep(300);
        c.shutdown();
        System.out.println("consumed\t" + got);
    }

    static void offsets(String[] a) throws Exception {
        org.apache.rocketmq.tools.admin.DefaultMQAdminExt admin = new org.apache.rocketmq.tools.admin.DefaultMQAdminExt();
        admin.setNamesrvAddr(a[1]);
        admin.start();
        var stats = admin.examineConsumeStats(a[3], a[2]);
        var topic = admin.examineTopicStats(a[2]);
        for (var e : new TreeMap<>(stats.getOffsetTable()).entrySet()) {
            var t = topic.getOffsetTable().get(e.getKey());
            System.out.println(e.getKey().getQueueId() + "\t" + e.getValue().getConsumerOffset() + "\t" + (t == null ? -1 : t.getMinOffset()) + "\t" + e.getValue().getBrokerOffset());
        }
        admin.shutdown();
    }

    /** A note that did not reach its file would be taken for a fault of the broker. */
    static void noted(PrintWriter file) {
        if (file.checkError()) {
            System.out.println("a note could not be written: is the disk full?");
            Runtime.getRuntime().halt(3);
        }
    }

    static void load(String[] a) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("compat-load");
        p.setNamesrvAddr(a[1]);
        p.setRetryTimesWhenSendFailed(0);
        p.start();
        PrintWriter acks = new PrintWriter(new FileWriter(a[5], true));
        AtomicLong counter = new AtomicLong();
        for (int t = 0; t < 4; t++) {
            Thread sender = new Thread(() -> {
                while (true) {
                    String value = "n" + counter.getAndIncrement();
                    try {
                        SendResult r = p.send(new Message(a[2], value.getBytes()));
                        if (r.getSendStatus() == SendStatus.SEND_OK) synchronized (acks) {
                            acks.println(a[2] + "\t" + r.getMessageQueue().getQueueId() + "\t" + r.getQueueOffset() + "\t" + value);
                            noted(acks);
                        }
                        Thread.sleep(1);
                    } catch (Exception e) {
                        try { Thread.sleep(50); } catch (InterruptedException i) { return; }
                    }
                }
            });
            sender.setDaemon(true);
            sender.start();
        }
        PrintWriter reads = new PrintWriter(new FileWriter(a[6], true));
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(a[3]);
        c.setNamesrvAddr(a[1]);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (String topic : a[4].split(",")) c.subscribe(topic, "*");
        c.registerMessageListener((MessageListenerConcurrently) (ms, x) -> {
            synchronized (reads) {
                for (MessageExt m : ms) reads.println(m.getTopic() + "\t" + m.getQueueId() + "\t" + m.getQueueOffset() + "\t" + new String(m.getBody()));
                noted(reads);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        System.out.println("started");
        System.out.flush();
        Thread.sleep(Long.MAX_VALUE);
    }
}
