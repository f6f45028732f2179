//! Results as these tools write them.

use super::*;
use weft_bench::results::Latency;

const FIO: &str = r#"fio: a note
{ "fio version" : "fio-3.36", "global options" : { "rw" : "randread", "bs" : "4k", "iodepth" : "16", "numjobs": "2", "ioengine": "io_uring" },
  "jobs" : [
  { "jobname" : "a", "groupid" : 0, "job options" : {}, "usr_cpu" : 10.0, "sys_cpu" : 20.0, "job_runtime" : 1000,
    "read" : { "iops" : 1000.0, "bw_bytes" : 4096000, "total_ios" : 1000, "runtime" : 1000,
      "lat_ns" : { "mean" : 1000.0, "max" : 9000 },
      "clat_ns" : { "percentile" : { "50.000000" : 900, "90.000000" : 1500, "99.000000" : 2000, "99.900000" : 3000 } } },
    "write" : { "iops" : 0.0, "bw_bytes" : 0, "total_ios" : 0, "runtime" : 0 } },
  { "jobname" : "a", "groupid" : 0, "job options" : {}, "usr_cpu" : 10.0, "sys_cpu" : 20.0, "job_runtime" : 1000,
    "read" : { "iops" : 3000.0, "bw_bytes" : 12288000, "total_ios" : 3000, "runtime" : 1000,
      "lat_ns" : { "mean" : 2000.0, "max" : 8000 },
      "clat_ns" : { "percentile" : { "50.000000" : 800, "90.000000" : 1600, "99.000000" : 1900 } } },
    "write" : { "iops" : 0.0, "bw_bytes" : 0, "total_ios" : 0, "runtime" : 0 } } ] }
more notes"#;

#[test]
fn jobs_of_fio_with_one_name_are_one_result() {
    let (tool, found) = read("x.json", FIO).unwrap();
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (tool.as_str(), one.bs_bytes, one.in_flight, one.read_percent, one.is_random),
        ("fio-3.36", 4096, 32, 100, true)
    );
    assert_eq!(
        (one.read_iops, one.write_iops, one.bytes_per_second, one.seconds),
        (4000.0, 0.0, 16_384_000.0, 1.0)
    );
    assert_eq!(
        (one.all.mean_ns, one.all.p50_ns, one.all.p90_ns, one.all.max_ns),
        (1750.0, 900.0, 1600.0, 9000.0)
    );
    assert_eq!(
        (one.all.p999_ns, one.all.p9999_ns, one.writes),
        (Some(3000.0), None, Latency::default())
    );
    // 2 × 0.1 s of 4,000 operations.
    assert_eq!(one.cpu_ns, Some((50_000.0, 100_000.0)));
}

const DISKSPD: &str = r#"<Results>
  <Profile><TimeSpans><TimeSpan><Targets><Target><Path>E:\x.dat</Path><BlockSize>4096</BlockSize><Random>4096</Random>
    <WriteRatio>30</WriteRatio><RequestCount>4</RequestCount><ThreadsPerFile>8</ThreadsPerFile></Target></Targets></TimeSpan></TimeSpans></Profile>
  <TimeSpan><TestTimeSeconds>10.00</TestTimeSeconds><ThreadCount>8</ThreadCount>
    <CpuUtilization><CPU><Id>0</Id><UsagePercent>50</UsagePercent></CPU><CPU><Id>1</Id><UsagePercent>50</UsagePercent></CPU>
      <Average><UsagePercent>50.00</UsagePercent><UserPercent>10.00</UserPercent><KernelPercent>40.00</KernelPercent></Average></CpuUtilization>
    <Latency><AverageReadMilliseconds>0.100</AverageReadMilliseconds><AverageWriteMilliseconds>0.200</AverageWriteMilliseconds>
      <AverageTotalMilliseconds>0.130</AverageTotalMilliseconds>
      <Bucket><Percentile>50</Percentile><ReadMilliseconds>0.090</ReadMilliseconds><WriteMilliseconds>0.190</WriteMilliseconds>
        <TotalMilliseconds>0.120</TotalMilliseconds></Bucket>
      <Bucket><Percentile>99.9</Percentile><TotalMilliseconds>1.500</TotalMilliseconds></Bucket></Latency>
    <Thread><Id>0</Id><Target><ReadBytes>286720</ReadBytes><ReadCount>70</ReadCount><WriteBytes>122880</WriteBytes><WriteCount>30</WriteCount></Target></Thread>
    <Thread><Id>1</Id><Target><ReadBytes>286720</ReadBytes><ReadCount>70</ReadCount><WriteBytes>122880</WriteBytes><WriteCount>30</WriteCount></Target></Thread>
  </TimeSpan>
</Results>"#;

#[test]
fn time_spans_of_diskspd_are_results() {
    let (tool, found) = read("x.xml", DISKSPD).unwrap();
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (tool.as_str(), one.bs_bytes, one.in_flight, one.read_percent, one.is_random),
        ("DISKSPD", 4096, 32, 70, true)
    );
    assert_eq!((one.read_iops, one.write_iops, one.bytes_per_second), (14.0, 6.0, 81_920.0));
    assert_eq!(
        (one.all.mean_ns, one.all.p50_ns, one.all.p999_ns, one.all.p9999_ns),
        (130_000.0, 120_000.0, Some(1_500_000.0), None)
    );
    assert_eq!((one.reads.mean_ns, one.writes.p50_ns), (100_000.0, 190_000.0));
    // A tenth of two processors for ten seconds, over 200 operations.
    assert_eq!(one.cpu_ns, Some((10_000_000.0, 40_000_000.0)));
}

const VDBENCH: &str = "<pre>\n* a comment\n\
tod Run Interval reqrate rate MB/sec bytes/io read% resp read_resp write_resp resp_max xfersize threads rdpct seekpct cpu_user cpu_kernel\n\
10:00:01 r1 1 9999 900.00 3.51 4096 70.0 1.0 0.9 1.2 5.0 4096 32 70 100 5.0 5.0\n\
10:00:02 r1 avg_2-3 9999 1000.00 3.906 4096 70.0 1.000 0.900 1.200 5.0 4096 32 70 100 5.0 10.0\n";

#[test]
fn averages_of_vdbench_are_results() {
    let (tool, found) = read("flatfile.html", VDBENCH).unwrap();
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (tool.as_str(), one.bs_bytes, one.in_flight, one.read_percent, one.is_random),
        ("vdbench", 4096, 32, 70, true)
    );
    assert_eq!(
        (one.read_iops, one.write_iops, one.all.mean_ns, one.all.max_ns),
        (700.0, 300.0, 1e6, 5e6)
    );
    assert_eq!(one.cpu_ns, Some((50_000.0, 100_000.0)));
}

#[test]
fn what_is_no_result_is_refused() {
    for (text, part) in [
        ("hello", "not a result of fio"),
        ("{\"fio version\": \"fio-3\", \"jobs\": []}", "no result in it"),
        ("<Results><TimeSpan>", "not a result of fio"),
        ("<Results><TimeSpan></TimeSpan></Results>", "no profile"),
    ] {
        let error = read("file", text).unwrap_err().to_string();
        assert!(error.starts_with("file: "), "{error}");
        assert!(error.contains(part) || text.ends_with("<TimeSpan>"), "{text}: {error}");
    }
}

/// A report of fio 3 of one job with these options.
fn fio(options: &str) -> String {
    let done = "\"iops\": 100.0, \"bw_bytes\": 409600, \"total_ios\": 100, \"runtime\": 1000, \"lat_ns\": {\"mean\": 5.0, \"max\": 9}";
    format!(
        "{{\"fio version\": \"fio-3.36\", \"jobs\": [{{\"jobname\": \"a\", \"groupid\": 0, \"error\": 0, \"job options\": {{{options}}}, \
         \"read\": {{{done}}}, \"write\": {{{done}}}}}]}}"
    )
}

#[test]
fn options_of_fio_say_what_was_done() {
    let of = |options: &str| read("x", &fio(options)).map(|(_, found)| found[0].clone());
    let two = of(r#""rw": "randrw", "bs": "8k,8k", "iodepth": "4", "ioengine": "libaio", "rwmixwrite": "30""#).unwrap();
    assert_eq!((two.bs_bytes, two.in_flight, two.read_percent), (8192, 4, 70));
    // The second size is that of writes.
    assert_eq!(of(r#""rw": "write", "bs": "4k,64k", "numjobs": "3""#).unwrap().bs_bytes, 65_536);
    let waiting =
        of(r#""rw": "randread", "iodepth": "32", "ioengine": "pvsync2", "numjobs": "3""#).unwrap();
    assert_eq!(waiting.in_flight, 3, "this engine waits for each operation");
    assert_eq!(
        of(r#""rw": "read", "rate_iops": "100""#).unwrap().remarks,
        ["Its rate was limited by rate_iops."]
    );
    for (options, part) in [
        (r#""bs": "big""#, "bs=big is not understood"),
        (r#""rw": "randrw", "bs": "4k,8k""#, "bs=4k,8k is not understood"),
        (r#""rw": "trim""#, "rw=trim is not understood"),
        (r#""bssplit": "4k/50:8k/50""#, "operations of several sizes (bssplit)"),
        (r#""bsrange": "4k-8k""#, "operations of several sizes (bsrange)"),
    ] {
        let error = of(options).unwrap_err().to_string();
        assert!(error.contains(part), "{options}: {error}");
    }
}

#[test]
fn partial_reports_of_fio_are_refused() {
    let whole = fio(r#""rw": "randread""#);
    for (from, to, part) in [
        ("\"error\": 0", "\"error\": 5", "job a ended with error 5"),
        ("\"job options\"", "\"other\"", "the options of job a are not in it"),
        (
            "\"error\": 0",
            "\"job_runtime\": 2000",
            "job a has the figures of others, too (group_reporting)",
        ),
        ("\"total_ios\"", "\"other\"", "job a has no total_ios of read"),
        ("\"error\": 0", "\"mixed\": {}", "unified_rw_reporting"),
        ("}]}", "", "EOF"),
    ] {
        let error = read("x", &whole.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn clients_of_fio_are_added_up_without_their_sum() {
    let warned = format!(
        "fio: a warning {{of something}}\n<host> more {{}}\n{}\nnote: {{x}}",
        fio(r#""rw": "randread", "ioengine": "io_uring", "iodepth": "2""#)
    );
    let (_, found) = read("x", &warned).unwrap();
    assert_eq!((found.len(), found[0].read_iops), (1, 100.0));
    let report: serde_json::Value = serde_json::from_str(&fio(r#""rw": "randread""#)).unwrap();
    let job = &report["jobs"][0];
    let of = |host: &str| {
        let mut job = job.clone();
        job["hostname"] = host.into();
        job
    };
    let mut sum = of("b");
    sum["jobname"] = "All clients".into();
    // One line for all jobs of a client.
    let of_group = |host: &str| {
        let mut job = of(host);
        job["job options"]["numjobs"] = "4".into();
        job
    };
    let grouped = serde_json::json!({ "fio version": "fio-3.36", "client_stats": [of_group("a"), of_group("b")] });
    assert_eq!(read("x", &grouped.to_string()).unwrap().1[0].in_flight, 8);
    let clients =
        serde_json::json!({ "fio version": "fio-3.36", "client_stats": [of("a"), of("b"), sum] });
    let (_, found) = read("x", &clients.to_string()).unwrap();
    assert_eq!((found.len(), found[0].read_iops, found[0].in_flight), (1, 200.0, 2));
}

/// As fio 3.33 writes them: a job without options of its own, and one without a name behind a group
/// of several.
#[test]
fn jobs_without_options_or_names_are_no_fault() {
    let mut report: serde_json::Value = serde_json::from_str(&fio(r#""rw": "randread""#)).unwrap();
    report["global options"] = report["jobs"][0]["job options"].take();
    let nameless =
        serde_json::json!({ "jobname": null, "groupid": u32::MAX, "error": 0, "job_runtime": 0 });
    report["jobs"].as_array_mut().unwrap().push(nameless);
    let (_, found) = read("x", &report.to_string()).unwrap();
    assert_eq!((found.len(), found[0].is_random, found[0].bs_bytes), (1, true, 4096));
}

#[test]
fn fio_2_has_microseconds_and_kibibytes() {
    let text = r#"{ "fio version" : "fio-2.16", "global options" : { "ioengine" : "libaio", "iodepth" : "8" }, "jobs" : [ {
        "jobname" : "a", "groupid" : 0, "error" : 0, "job options" : { "rw" : "randread", "bs" : "4k" },
        "read" : { "io_bytes" : 4000, "bw" : 400, "iops" : 100.0, "runtime" : 10000, "total_ios" : 1000,
          "clat" : { "min" : 1, "max" : 90, "mean" : 20.0, "percentile" : { "50.000000" : 15, "99.000000" : 80 } },
          "lat" : { "min" : 2, "max" : 95, "mean" : 21.5 } },
        "write" : { "io_bytes" : 0, "bw" : 0, "iops" : 0.0, "runtime" : 0, "total_ios" : 0 } } ] }"#;
    let (tool, found) = read("x", text).unwrap();
    let one = &found[0];
    assert_eq!((tool.as_str(), one.bytes_per_second, one.in_flight), ("fio-2.16", 409_600.0, 8));
    assert_eq!(
        (one.reads.mean_ns, one.reads.p50_ns, one.reads.p99_ns, one.reads.max_ns),
        (21_500.0, 15_000.0, 80_000.0, 95_000.0)
    );
    assert_eq!(one.cpu_ns, None);
}

const DISKSPD_TEXT: &str = "
Command Line: diskspd.exe -b8K -d10 -o2 -t4 -r -w30 -L x.dat

Input parameters:

	timespan:   1
	-------------
	duration: 10s
	measuring latency
	path: 'x.dat'
		performing mix test (read/write ratio: 70/30)
		block size: 8KiB
		using random I/O (alignment: 8KiB)
		number of outstanding I/O operations per thread: 2
		threads per file: 4

System information:

	computer name: x

Results for timespan 1:
*******************************************************************************

actual test time:	10.00s
thread count:		4

Core | CPU |  Usage |  User  | Kernel |  Idle
-----------------------------------------------
    0|    0|  50.00%|  10.00%|  40.00%|  50.00%
    0|    1|  50.00%|  10.00%|  40.00%|  50.00%
-----------------------------------------------
       avg.|  50.00%|  10.00%|  40.00%|  50.00%

Total IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file
-----------------------------------------------------------------------------------------------------
     0 |         1638400 |          200 |       0.16 |      20.00 |    0.130 |     0.100 | x.dat (50MiB)
-----------------------------------------------------------------------------------------------------
total:           1638400 |          200 |       0.16 |      20.00 |    0.130 |     0.100

Read IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file
-----------------------------------------------------------------------------------------------------
     0 |         1146880 |          140 |       0.11 |      14.00 |    0.100 |     0.100 | x.dat (50MiB)
-----------------------------------------------------------------------------------------------------
total:           1146880 |          140 |       0.11 |      14.00 |    0.100 |     0.100

Write IO
thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file
-----------------------------------------------------------------------------------------------------
     0 |          491520 |           60 |       0.05 |       6.00 |    0.200 |     0.100 | x.dat (50MiB)
-----------------------------------------------------------------------------------------------------
total:            491520 |           60 |       0.05 |       6.00 |    0.200 |     0.100

Total latency distribution:
  %-ile |  Read (ms) | Write (ms) | Total (ms)
----------------------------------------------
    min |      0.029 |      0.060 |      0.029
   50th |      0.090 |      0.190 |      0.120
   90th |      0.300 |      0.400 |      0.350
   99th |      0.900 |      0.950 |      0.930
3-nines |      1.400 |      1.600 |      1.500
    max |      2.000 |      3.000 |      3.000
";

#[test]
fn the_text_of_diskspd_is_a_result() {
    let (tool, found) = read("x.txt", &DISKSPD_TEXT.replace('\n', "\r\n")).unwrap();
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (tool.as_str(), one.bs_bytes, one.in_flight, one.read_percent, one.is_random),
        ("DISKSPD", 8192, 8, 70, true)
    );
    assert_eq!((one.read_iops, one.write_iops, one.bytes_per_second), (14.0, 6.0, 163_840.0));
    assert_eq!(
        (one.all.mean_ns, one.all.p50_ns, one.all.p999_ns, one.all.p9999_ns),
        (130_000.0, 120_000.0, Some(1_500_000.0), None)
    );
    assert_eq!(
        (one.reads.p90_ns, one.writes.mean_ns, one.writes.max_ns),
        (300_000.0, 200_000.0, 3e6)
    );
    assert_eq!(one.cpu_ns, Some((10_000_000.0, 40_000_000.0)));
    // An earlier form of the processors and of the depth.
    let earlier = DISKSPD_TEXT
        .replace("Core | CPU |", "CPU |")
        .replace("    0|    0|", "   0|")
        .replace("    0|    1|", "   1|")
        .replace("       avg.|", "avg.|")
        .replace("operations per thread:", "operations:");
    assert_eq!(read("x.txt", &earlier).unwrap().1, found);
    for (from, to, part) in [
        ("threads per file: 4", "", "operations in flight are not told"),
        ("block size: 8KiB", "", "block size is not told"),
        ("using random I/O", "using mixed random/sequential I/O", "its order"),
        ("actual test time:", "other:", "the time is missing"),
        ("Write IO", "Other", "Write IO is missing"),
        ("Input parameters:", "", "no input parameters"),
    ] {
        let error = read("x", &DISKSPD_TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn partial_files_of_diskspd_and_vdbench_are_refused() {
    for (text, from, to, part) in [
        (
            DISKSPD,
            "<Random>4096</Random>",
            "<RandomRatio>50</RandomRatio>",
            "random and sequential",
        ),
        (DISKSPD, "<BlockSize>4096</BlockSize>", "", "no block size"),
        (
            DISKSPD,
            "<TimeSpans>",
            "<TimeSpans><TimeSpan></TimeSpan>",
            "2 time spans, and results of 1",
        ),
        (VDBENCH, " cpu_user cpu_kernel", " cpu_user", "18 columns, and its head 17"),
        (VDBENCH, " seekpct", " other", "column seekpct is missing"),
        (VDBENCH, " threads", " other", "column threads is missing"),
        ("Starting RD=rd1; I/O rate: Uncontrolled MAX; elapsed=5", "", "", "import flatfile.html"),
    ] {
        let error = read("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}
