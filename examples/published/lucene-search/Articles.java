package com.example.articles;

import com.example.load.Load;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.NoMergePolicy;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.MMapDirectory;

/**
 * Replaces an index of 40 articles again and again and opens a reader to search the new one, with its files mapped. The
 * leaking twin keeps its readers, so the files of replaced indexes stay mapped, and on the disk.
 */
public final class Articles {
    private static final int BYTES = 10_000;
    private final IndexWriter writer;
    private final Queue<DirectoryReader> outdated = new ConcurrentLinkedQueue<>();
    private final Random random = new Random(1);

    Articles(Path folder) throws IOException {
        IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer());
        config.setMergePolicy(NoMergePolicy.INSTANCE).setUseCompoundFile(true);
        writer = new IndexWriter(new MMapDirectory(folder), config);
    }

    synchronized void publish(long edition) throws IOException {
        writer.deleteAll();
        for (int number = 0; number < 40; number++) {
            byte[] text = new byte[BYTES];
            random.nextBytes(text);
            Document article = new Document();
            article.add(new StringField("number", Integer.toString(number), Field.Store.YES));
            article.add(new StoredField("text", text));
            writer.addDocument(article);
        }
        writer.commit();
        search();
    }

    private void search() throws IOException {
        DirectoryReader reader = DirectoryReader.open(writer.getDirectory());
        IndexSearcher searcher = new IndexSearcher(reader);
        for (int number = 0; number < 40; number++) {
            TermQuery query = new TermQuery(new Term("number", Integer.toString(number)));
            int found = searcher.search(query, 1).scoreDocs[0].doc;
            reader.storedFields().document(found);
        }
        if (Load.leaks()) {
            outdated.add(reader);
            Load.leaked(40L * BYTES);
        } else {
            reader.close();
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        Load.run(args, 2, new Articles(Files.createTempDirectory("articles"))::publish);
    }
}
