package org.apache.kafka.common.utils;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Path;
import java.util.function.Supplier;

/**
 * The clock of a broker whose date somebody can set: it stands in the place of Kafka's class of
 * this name.
 *
 * <p>A file maps to memory how many milliseconds the date is ahead: eight bytes, big-endian. The
 * property {@code chaos.clocks} names its folder; its name is the process's id.
 */
class SystemTime implements Time {
    private static final SystemTime SYSTEM_TIME = new SystemTime();
    private static final ByteBuffer AHEAD_MS = map();

    public static SystemTime getSystemTime() {
        return SYSTEM_TIME;
    }

    private static ByteBuffer map() {
        String folder = System.getProperty("chaos.clocks");
        Path file = Path.of(folder, Long.toString(ProcessHandle.current().pid()));
        try (RandomAccessFile opened = new RandomAccessFile(file.toFile(), "rw")) {
            opened.setLength(Long.BYTES);
            return opened.getChannel().map(MapMode.READ_WRITE, 0, Long.BYTES);
        } catch (IOException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    @Override
    public long milliseconds() {
        return System.currentTimeMillis() + AHEAD_MS.getLong(0);
    }

    @Override
    public long nanoseconds() {
        return System.nanoTime();
    }

    @Override
    public void sleep(long ms) {
        Utils.sleep(ms);
    }

    @Override
    public void waitObject(Object lock, Supplier<Boolean> condition, long deadlineMs)
            throws InterruptedException {
        synchronized (lock) {
            while (!condition.get()) {
                long leftMs = deadlineMs - milliseconds();
                if (leftMs <= 0) {
                    throw new org.apache.kafka.common.errors.TimeoutException(
                            "the condition did not hold in time");
                }
                lock.wait(leftMs);
            }
        }
    }
}
