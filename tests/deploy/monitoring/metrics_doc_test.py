"""docs/metrics.md says what the daemons show."""

import artefacts
import certificates
import metrics_doc

import system_test


class MetricsDocTest(system_test.SystemTest):
    def test_it_is_what_daemons_with_each_engine_show(self):
        page = metrics_doc.render(metrics_doc.scrape_all(self.folder()))
        self.assertEqual(artefacts.METRICS_DOC.read_text().splitlines(), page.splitlines(),
                         "run scripts/make_metrics_doc")

    def test_a_metric_that_is_not_known_is_named(self):
        with self.assertRaisesRegex(ValueError, "lodgekv_new"):
            metrics_doc.render({"null": "# HELP lodgekv_new New\n# TYPE lodgekv_new gauge\n"
                                        "lodgekv_new 1\n"})

    def test_a_label_that_is_not_known_is_named(self):
        with self.assertRaisesRegex(ValueError, "shard"):
            metrics_doc.render({"null": "# HELP lodgekv_pool_full Full\n"
                                        "# TYPE lodgekv_pool_full gauge\n"
                                        'lodgekv_pool_full{shard="1"} 1\n'})


if __name__ == "__main__":
    if certificates.have_openssl():
        system_test.main()
    else:
        print("SKIPPED: no openssl command here to make certificates; Debian's package has it")
