//! Tests of reports. `document` tests the page of a report; `kept` tests the studies in the
//! documentation.

mod document;
mod kept;

use crate::sample;
use document::{check_nesting, texts};
use weft_bench::report::{INDEX, charts, csv, html, markdown, site};
use weft_bench::results::{Drawing, Lane, Quantity, Results, Row};

#[test]
fn every_pattern_and_lane_has_its_numbers() {
    let results = sample::study();
    let page = html(&results);
    let texts = texts(&page);
    for workload in &results.workloads {
        assert!(texts.contains(&workload.title.as_str()), "{}", workload.title);
    }
    for lane in &results.lanes {
        assert!(
            texts.contains(&lane.name.as_str()) && texts.contains(&lane.url.as_str()),
            "{}",
            lane.name
        );
    }
    let cells = page.matches("<td class=\"strong\">").count();
    assert_eq!(
        cells,
        results.rows.len() + results.ceiling.len(),
        "a line of the whole table for each row and each ceiling"
    );
}

/// One row, whose numbers are known to the digit, wherever they have to be.
#[test]
fn numbers_are_the_ones_of_the_results() {
    let mut results = sample::study();
    let row = results
        .rows
        .iter_mut()
        .find(|row| row.lane == "nvme+tcp" && row.workload == "4k-randread")
        .expect("is measured");
    (row.iops, row.bytes_per_second, row.spread) =
        (123_456.0, 505_700_000.0, (111_000.0, 137_000.0));
    (row.share_of_local, row.share_of_ceiling) = (Some(0.0312), Some(0.987));
    (row.latency.mean_ns, row.latency.p50_ns, row.latency.p99_ns, row.latency.p999_ns) =
        (251_000.0, 241_000.0, 391_000.0, Some(1.5e7));
    (row.interval, row.rounds, row.seconds) = (Some((119_000.0, 129_000.0)), 4, 0.375);
    (row.initiator.user_ns, row.initiator.system_ns) = (712.0, 1_290.0);
    let page = html(&results);
    let texts = texts(&page);
    for number in [
        "123k",
        "0.51",
        "111k–137k",
        "119k–129k",
        "3.1",
        "99",
        "251",
        "241",
        "391",
        "15.0k",
        "0.71",
        "1.29",
        "2.00 initiator",
        "4 × 0.38",
    ] {
        assert!(texts.contains(&number), "{number}");
    }
}

#[test]
fn the_findings_are_computed() {
    let mut results = sample::study();
    let patterns: Vec<String> = results.patterns().map(|pattern| pattern.name.clone()).collect();
    for (at, name) in patterns.iter().enumerate() {
        let row = results
            .rows
            .iter_mut()
            .find(|row| row.lane == "nvme+tcp" && row.workload == *name)
            .expect("is measured");
        row.share_of_local = Some(0.30 + at as f64 / 100.0);
        row.share_of_ceiling = None;
    }
    let page = html(&results).replace('\u{a0}', " ");
    assert!(page.contains(
        "It keeps 36 % of the IOPS of local, in the median of the patterns; the patterns lie between 30 % (4 KiB random"
    ));
    assert!(
        !page.contains("<h1>It keeps") && !page.contains("keeps 36 % of the IOPS of local</h1>")
    );
    assert!(!page.contains("<h2>Share of bare TCP"), "without shares there is nothing to draw");
}

/// What somebody asks who is about to buy: latency added, processor time at each end, the wire,
/// cores of a link.
#[test]
fn the_headline_answers_a_buyer() {
    let mut results = sample::study();
    let row = |results: &mut Results, lane: &str, workload: &str, change: &dyn Fn(&mut Row)| {
        change(
            results
                .rows
                .iter_mut()
                .find(|row| row.lane == lane && row.workload == workload)
                .expect("is measured"),
        );
    };
    row(&mut results, "local", "qd1-4k-randread", &|row| row.latency.p50_ns = 80_000.0);
    row(&mut results, "nvme+tcp", "qd1-4k-randread", &|row| row.latency.p50_ns = 101_000.0);
    let cpu = |ns: f64| weft_bench::results::CpuPerIo { user_ns: ns, system_ns: ns };
    row(&mut results, "nvme+tcp", "4k-randread", &|row| {
        (row.initiator, row.target) = (cpu(600.0), Some(cpu(700.0)))
    });
    // 64 KiB take 20.97 µs at one end: 320 ps for a byte, 1 core for 25 Gbit/s.
    row(&mut results, "nvme+tcp", "64k-seqread", &|row| {
        (row.initiator, row.target) = (cpu(10_485.76), Some(cpu(20_971.52)))
    });
    let page = html(&results).replace('\u{a0}', " ");
    let lane = &results.lanes[1].title;
    assert!(page.contains(&format!(
        "{lane} adds 21.0 µs to a 4 KiB random read and costs 1.20 µs + 1.40 µs of CPU per I/O</h1>"
    )));
    for words in [
        "+21.0 µs (no interval)",
        "<td>1.0 + 2.0</td><td>4.0 + 8.0</td>",
        "a full 25 GbE link takes 1.0 + 2.0 cores and a full 100 GbE link 4.0 + 8.0 (initiator + target)",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains("in a bare TCP exchange"));
    results.ceiling.iter_mut().for_each(|ceiling| ceiling.interval = None);
    assert!(
        !html(&results).contains("in a bare TCP exchange"),
        "one that is not steady is no measure"
    );
    for title in [
        "<h2>IOPS</h2>",
        "<h2>CPU per I/O</h2>",
        "How it compares",
        "What limits",
        "Cores for a full link",
        "How sure that is",
    ] {
        assert!(page.contains(title), "{title}");
    }
}

/// A relation that was measured side by side is told with its interval, however far apart the
/// rounds of its lanes lie.
#[test]
fn there_is_always_a_conclusion() {
    let mut results = sample::unstable();
    let name = results.lanes[1].name.clone();
    assert!(results.rows.iter().filter(|row| row.lane == name).all(Row::is_unstable));
    let lane = results.lanes[1].title.clone();
    let headline = |results: &Results| {
        let page = html(results).replace('\u{a0}', " ");
        page.split_once("<h1>")
            .and_then(|(_, rest)| rest.split_once("</h1>"))
            .expect("there is a headline")
            .0
            .to_owned()
    };
    // An older study has no relations.
    assert!(
        headline(&results).starts_with(&format!("{lane} adds about ")),
        "{}",
        headline(&results)
    );
    results.relations = sample::relations();
    let said = headline(&results);
    assert!(said.starts_with(&format!("{lane} adds 9.40 µs to a 4 KiB random read (9.10 µs to 9.80 µs) and 1.99 µs of processor time at both ends (1.90 µs to 2.10 µs)")), "{said}");
    assert!(!said.contains("about"), "{said}");
    let cycles = |low, high| {
        sample::relation((&name, Some(Lane::LOCAL)), "4k-randread", Quantity::Cycles, (low, high))
    };
    results.relations.push(cycles(5000.0, 5200.0));
    assert!(
        headline(&results).contains(" and 5.09k cycles at both ends (5.00k to 5.20k cycles)"),
        "{}",
        headline(&results)
    );
    results.relations.pop();
    let page = html(&results).replace('\u{a0}', " ");
    for words in [
        "+9.40 µs (9.10 µs to 9.80 µs)",
        "× 0.76 (0.74 to 0.78)",
        "from 9 pairs of measurements side by side",
        "their mean is 9.40 µs more than without a network (95 % interval 9.10 µs to 9.80 µs)",
        "and the network adds 1.99 µs (1.90 µs to 2.10 µs)",
        &format!("{lane} does 0.74 to 0.78 of bare TCP’s rate."),
    ] {
        assert!(page.contains(words), "{words}");
    }
    check_nesting(&page);
}

#[test]
fn lanes_side_by_side_have_the_interval_of_their_ratio() {
    let mut results = sample::null_suite();
    assert!(
        html(&results).contains("<h1>NVMe/TCP does 2.00 times the operations of iSCSI</h1>"),
        "an older study"
    );
    let rate = |low, high| {
        sample::relation(
            ("nvme+tcp", Some("iscsi")),
            "4k-randrw70-256jobs",
            Quantity::Rate,
            (low, high),
        )
    };
    results.relations = vec![rate(1.97, 2.04)];
    assert!(html(&results).contains("<h1>NVMe/TCP does 1.97 to 2.04 times iSCSI’s rate</h1>"));
    results.relations = vec![rate(0.99, 1.02)];
    assert!(html(&results).contains("<h1>NVMe/TCP and iSCSI are level within 2\u{a0}%</h1>"));
}

/// A percentile of too few operations is left out, in tables and charts.
#[test]
fn a_percentile_of_few_operations_is_not_told() {
    let mut results = sample::study();
    results.rows.iter_mut().for_each(|row| row.latency.p999_ns = Some(777_000.0));
    assert!(html(&results).contains("777"));
    results.rows.iter_mut().for_each(|row| row.latency.p999_ns = None);
    assert!(!html(&results).contains("777"));
    check_nesting(&html(&results));
}

#[test]
fn limits_failures_and_notes_are_said_only_when_there_are_any() {
    let mut results = sample::study();
    let clear = |row: &mut Row| (row.generator_limited, row.failed) = (false, 0);
    results.rows.iter_mut().for_each(clear);
    results.notes.clear();
    let page = html(&results);
    let words = [
        "The load generator was the limit:",
        "Operations failed:",
        "<summary>Notes on the numbers (1)</summary>",
        ">failed<",
    ];
    for word in words {
        assert!(!page.contains(word), "{word}");
    }
    (results.rows[0].generator_limited, results.rows[0].failed) = (true, 3);
    results.notes.push("It was late.".to_owned());
    let page = html(&results);
    for word in words {
        assert!(page.contains(word), "{word}");
    }
}

#[test]
fn the_null_suite_has_its_own_page() {
    let page = html(&sample::null_suite()).replace('\u{a0}', " ");
    assert!(page.contains("NVMe/TCP does 2.00 times the operations of iSCSI</h1>"));
    let texts = texts(&page);
    for number in [
        "140k", "70.0k", "2.00", "1.50", "1.00", "3.00", "4192", "0.020", "4.00", "1.80", "× iscsi",
    ] {
        assert!(texts.contains(&number), "{number}");
    }
    for words in [
        "† Not measured here: somebody else’s comparison. <code>example.org/comparison",
        "What differs is processor time (iSCSI takes 2.00 times as much), system calls (iSCSI takes 2.00 times as much); what does \
         not is copying, bytes on the wire.",
        "Counted over 51200 operations each, one takes 4192 bytes on the wire over NVMe/TCP and 4192 over iSCSI",
        "3.00 µs of processor time at both ends together over NVMe/TCP and 6.00 µs over iSCSI: 1.00 µs and 2.00 µs in user space, 2.00 µs",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(
        !page.contains("25.0k") && !page.contains("25000"),
        "published figures are shown as relations only"
    );
    assert_eq!(
        page.matches("<svg ").count(),
        6,
        "what was published, and two charts of relations, each wide and narrow"
    );
    assert!(!page.contains("in the median of the patterns"));
}

#[test]
fn curves_and_series_are_drawn_and_can_be_read() {
    let results = sample::with_curves();
    let page = html(&results);
    check_nesting(&page);
    assert!(
        page.contains("<h2>IOPS and latency over the depth</h2>")
            && page.contains("<h2>IOPS over time</h2>")
    );
    assert_eq!(
        page.matches("class=\"hover\"").count() % 2,
        0,
        "each mark twice, on the wide and the narrow drawing"
    );
    assert!(page.contains("nvme+tcp: 64 in flight, 900k IOPS"));
    for words in [
        "nvme+tcp, 4 KiB random read: saturated with 128 operations in flight (905k IOPS)",
        "local, 4 KiB random read: the load generator ran out of CPU at 128 operations in flight",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

/// The mistake of a published comparison, made here: the device was driven less than the network in
/// front of it.
#[test]
fn a_lane_that_seems_faster_than_its_device_is_explained() {
    let mut results = sample::with_curves();
    for row in &mut results.rows {
        let iops = if row.lane == Lane::LOCAL { 100e3 } else { 127e3 };
        (row.iops, row.interval) = (iops, Some((iops * 0.99, iops * 1.01)));
        row.generator_limited = false;
    }
    let words = "nvme+tcp seems faster than local in 13 of the patterns";
    let page = html(&results);
    assert!(page.contains(words) && page.contains("local was not driven to saturation"));
    assert!(
        page.contains("With 128 operations in flight local did 905k IOPS.")
            || page.contains("it takes more jobs or a greater depth")
    );
    // Nothing is said of rows that are not steady, nor where the intervals overlap.
    results
        .rows
        .iter_mut()
        .filter(|row| row.lane == Lane::LOCAL)
        .for_each(|row| row.interval = None);
    assert!(!html(&results).contains("seems faster"));
    results.rows.iter_mut().for_each(|row| row.interval = Some((row.iops * 0.8, row.iops * 1.2)));
    assert!(!html(&results).contains("seems faster"));
}

#[test]
fn published_shares_of_an_unsaturated_device_are_questioned() {
    let mut results = sample::study();
    results.draw.push(Drawing::Published);
    results.published = weft_bench::suite::Suite::named("initiators").unwrap().published;
    let page = html(&results);
    check_nesting(&page);
    assert!(page.contains(
        "loopback (1.27 times) and Linux, RDMA (1.48 times) do more than the local device"
    ));
    assert!(page.contains("had not been driven to saturation there"));
    assert!(!page.contains("558450") && !page.contains("558k"));
}

#[test]
fn the_open_loop_has_a_section_of_its_own() {
    let results = sample::with_open_loop();
    let page = html(&results);
    check_nesting(&page);
    for part in [
        "<h2>Latency at the same rate</h2>",
        "4 KiB random read at 50 % load",
        "Fixed rate",
        "99 % end within",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("open-loop-wide-title").count(), 2, "the chart, and what names it");
    assert!(charts(&results).iter().any(|(name, _)| name == "open-loop"));
    assert!(markdown(&results).contains("50 % of what the slowest lane does"));
    assert!(!html(&sample::study()).contains("Latency at the same rate"));
}

/// A percentile of a fixed rate without an interval is not quoted: it may be a stall of the
/// machine.
#[test]
fn a_percentile_is_told_with_its_interval() {
    let mut results = sample::with_open_loop();
    let page = |results: &Results| html(results).replace('\u{a0}', " ");
    let quoted = "99 % end within ";
    assert!(
        page(&results)
            .split_once(quoted)
            .is_some_and(|(_, rest)| rest.split('.').take(4).any(|part| part.contains(" to ")))
    );
    results.rows.iter_mut().for_each(|row| row.p99_interval = None);
    assert!(!page(&results).contains(quoted));
}

#[test]
fn other_formats_hold_the_same_rows() {
    let results = sample::with_curves();
    let text = markdown(&results);
    let lines =
        text.lines().filter(|line| line.starts_with("| 4k-") || line.starts_with("| 64k-")).count();
    assert!(lines > 20 && text.contains("| 4k-randread | nvme+tcp"), "{text}");
    let table = csv(&results);
    let widths: Vec<usize> = table.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(
        (widths.len(), widths.iter().all(|width| *width == widths[0])),
        (results.rows.len() + 1, true)
    );
    let charts = charts(&results);
    assert!(
        charts.iter().any(|(name, _)| name == "iops-small")
            && charts.iter().any(|(name, _)| name.starts_with("curve-"))
    );
    for (name, chart) in &charts {
        assert!(
            chart.starts_with("<svg xmlns=")
                && chart.contains("<style>")
                && !chart.contains("var(")
                && chart.ends_with("</svg>\n"),
            "{name}"
        );
        check_nesting(chart);
    }
    let hostile = sample::hostile();
    assert!(!markdown(&hostile).contains("<script") && !csv(&hostile).contains('\u{1b}'));
}

#[test]
fn the_index_of_a_site_is_well_formed_and_has_each_command() {
    let pages = site(vec![sample::hostile(), sample::study()]).unwrap();
    let index = pages.last().unwrap();
    assert_eq!(index.path, INDEX);
    check_nesting(&index.content);
    let rows = [sample::hostile(), sample::study()].iter().map(|of| of.rows.len()).sum::<usize>();
    assert_eq!(index.content.matches("<td class=\"strong\">").count(), rows);
}
