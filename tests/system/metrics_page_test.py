"""Samples of a page of metrics are found by name and labels."""

import daemon
import metrics_page
import system_test
from metrics_page import Page, sample

TEXT = r"""# HELP calls_total Calls
# TYPE calls_total counter
calls_total{rpc="Get",code="OK"} 3
calls_total{rpc="Get",code="INTERNAL"} 4
calls 5
calls_seconds_bucket{le="+Inf"} 1.5e-06
lag NaN
odd{path="a \"b\", {c=\"d\"} \\ e\n"} 6

"""


class MetricsPageTest(system_test.SystemTest):
    def test_values(self):
        page = Page(TEXT)
        self.assertEqual(page.value("calls_total", code="OK", rpc="Get"), 3)
        self.assertEqual(page.value("calls_total", rpc="Get", code="INTERNAL"), 4)
        self.assertEqual(page["calls"], 5)
        self.assertEqual(page.value("calls_seconds_bucket", le="+Inf"), 1.5e-6)
        self.assertNotEqual(page.value("lag"), page.value("lag"))
        self.assertEqual(page.value("odd", path='a "b", {c="d"} \\ e\n'), 6)
        self.assertEqual(len(page), 6)

    def test_names(self):
        self.assertEqual(sample("calls"), "calls")
        self.assertEqual(sample("calls_total", rpc="Put", code=1),
                         'calls_total{code="1",rpc="Put"}')
        self.assertIn(sample("calls_total", rpc="Get", code="OK"), Page(TEXT))

    def test_what_is_missing_is_named_beside_what_is_there(self):
        page = Page(TEXT)
        with self.assertRaises(metrics_page.NoSampleError) as caught:
            page.value("calls_total", rpc="Get")
        self.assertEqual(str(caught.exception),
                         'no calls_total{rpc="Get"}; there is calls_total{code="OK",rpc="Get"}, '
                         'calls_total{code="INTERNAL",rpc="Get"}')
        with self.assertRaisesRegex(metrics_page.NoSampleError,
                                    "^no call; there is no other call$"):
            page.value("call")
        self.assertEqual(page.get(sample("calls_total", rpc="Put"), 0), 0)

    def test_a_line_that_is_none_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no line of a page of metrics: calls$"):
            Page("calls\n")

    def test_the_page_of_a_daemon(self):
        address = f"127.0.0.1:{daemon.free_port()}"
        with self.daemon(self.folder(), engine="dram", metrics_listen=address) as server:
            server.ask("put", "key", "value")
            page = metrics_page.read(address)
        self.assertEqual(page.value("lodgekv_state", state="serving"), 1)
        self.assertEqual(page.value("lodgekv_rpc_latency_seconds_count", rpc="Put", code="OK"), 1)
        with self.assertRaises(OSError):
            metrics_page.read(address)


if __name__ == "__main__":
    system_test.main()
