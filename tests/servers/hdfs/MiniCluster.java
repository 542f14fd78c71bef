import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSCluster.DataNodeProperties;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/**
 * Hadoop's mini cluster on 127.0.0.1: a NameNode and DataNodes, with WebHDFS. Run from source:
 * java -cp JARS MiniCluster.java FOLDER DATANODES REPLICATION DEAD_AFTER_MS [NAME=VALUE ...]
 *
 * It reads commands from standard input: "stop I", "start I", "state", "exit". It prints a line of
 * JSON when it is ready, and one after each command. It also exits at the end of the input, so that
 * it stops with its parent process.
 */
public final class MiniCluster {
    private static final String ADDRESS = "127.0.0.1";

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // keeps the output of Hadoop out of the answers
        int dataNodes = Integer.parseInt(arguments[1]);
        long deadAfterMs = Long.parseLong(arguments[3]);
        Configuration settings = new Configuration();
        settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(arguments[0]).getAbsolutePath());
        settings.set("dfs.replication", arguments[2]);
        settings.set("dfs.permissions.enabled", "false");
        settings.set("dfs.datanode.hostname", ADDRESS); // target of the redirects of WebHDFS
        settings.set("dfs.datanode.address", ADDRESS + ":0");
        settings.set("dfs.datanode.http.address", ADDRESS + ":0");
        settings.set("dfs.datanode.ipc.address", ADDRESS + ":0");
        settings.set("dfs.namenode.fs-limits.min-block-size", "4096");
        // A DataNode is considered dead after 2 * recheck + 10 * heartbeat.
        settings.set("dfs.heartbeat.interval", "1s");
        settings.set("dfs.namenode.heartbeat.recheck-interval", Long.toString(Math.max(0, (deadAfterMs - 10_000) / 2)));
        for (int index = 4; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            settings.set(pair[0], pair[1]);
        }
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings).numDataNodes(dataNodes).format(true).build();
        cluster.waitActive();
        List<String> names = new ArrayList<>(); // unlike positions in the list, names never change
        for (DataNode node : cluster.getDataNodes()) {
            names.add(node.getDisplayName());
        }
        Map<Integer, DataNodeProperties> stopped = new HashMap<>();
        answers.println(state(cluster));
        answers.flush();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null && !line.equals("exit"); line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            try {
                if (words[0].equals("stop")) {
                    int which = Integer.parseInt(words[1]);
                    stopped.put(which, cluster.stopDataNode(names.get(which)));
                } else if (words[0].equals("start")) {
                    int which = Integer.parseInt(words[1]);
                    cluster.restartDataNode(stopped.remove(which), true);
                    cluster.waitActive();
                } else if (!words[0].equals("state")) {
                    throw new IllegalArgumentException("no such command: " + line);
                }
                answers.println(state(cluster));
            } catch (Exception failure) {
                answers.println("{\"error\":\"" + failure.toString().replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"}");
            }
            answers.flush();
        }
        cluster.shutdown(true);
        System.exit(0);
    }

    private static String state(MiniDFSCluster cluster) {
        List<String> ports = new ArrayList<>();
        for (DataNode node : cluster.getDataNodes()) {
            ports.add(Integer.toString(node.getInfoPort()));
        }
        var blocks = cluster.getNamesystem().getBlockManager();
        return String.format(
            "{\"http_port\":%d,\"rpc_port\":%d,\"datanode_ports\":[%s],\"live\":%d,\"under_replicated\":%d,\"missing\":%d}",
            cluster.getNameNode().getHttpAddress().getPort(),
            cluster.getNameNodePort(),
            String.join(",", ports),
            cluster.getNamesystem().getNumLiveDataNodes(),
            blocks.getLowRedundancyBlocksCount(),
            blocks.getMissingBlocksCount());
    }
}
