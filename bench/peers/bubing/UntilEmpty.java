package it.unimi.di.law.bubing.frontier;

import it.unimi.di.law.bubing.Agent;
import it.unimi.di.law.bubing.sieve.MercatorSieve;
import java.lang.management.ManagementFactory;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Runs an agent and calls its JMX operation `stop` when the sieve and all queues are empty. */
public final class UntilEmpty {
    private static final long INTERVAL_MS = 500;

    public static void main(String[] arguments) throws Exception {
        Thread watch = new Thread(UntilEmpty::stopWhenEmpty);
        watch.setDaemon(true);
        watch.start();
        Agent.main(arguments);
    }

    private static void stopWhenEmpty() {
        try {
            // Twice in succession: the distributor may be moving a URL between two queues.
            for (int empty = 0; empty < 2; empty = isEmpty() ? empty + 1 : 0) {
                Thread.sleep(INTERVAL_MS);
            }
            MBeanServer server = ManagementFactory.getPlatformMBeanServer();
            for (ObjectName name : server.queryNames(new ObjectName("it.unimi.*:*"), null)) {
                server.invoke(name, "stop", null, null);
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static boolean isEmpty() throws ReflectiveOperationException {
        Thread[] threads = new Thread[Thread.activeCount() + 10];
        Thread.enumerate(threads);
        for (Thread thread : threads) {
            if (thread instanceof Distributor) {
                var field = Distributor.class.getDeclaredField("frontier");
                field.setAccessible(true);
                return isEmpty((Distributor) thread, (Frontier) field.get(thread));
            }
        }
        return false;
    }

    private static boolean isEmpty(Distributor distributor, Frontier frontier) {
        if (((MercatorSieve<?, ?>) frontier.sieve).numberOfItems() > 0
                || !frontier.readyURLs.isEmpty()
                || distributor.schemeAuthority2VisitState.isEmpty()) {
            return false;
        }
        for (VisitState state : distributor.schemeAuthority2VisitState.visitStates()) {
            if (state != null
                    && (state.acquired
                            || !state.isEmpty()
                            // a host that was given up keeps its URLs on disk
                            || state.nextFetch != Long.MAX_VALUE
                                    && frontier.virtualizer.count(state) > 0)) {
                return false;
            }
        }
        return true;
    }
}
