//! Results as these tools write them.

use super::*;
use weft_bench::results::Latency;

const FIO: &str = r#"fio: a note
{ "fio version" : "fio-3.36", "global options" : { "rw" : "randread", "bs" : "4k", "iodepth" : "16", "numjobs": "2" },
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
        ("hello", "no result of fio"),
        ("{\"fio version\": \"fio-3\", \"jobs\": []}", "no result in it"),
        (
            "{\"fio version\": \"fio-3\", \"jobs\": [{\"jobname\": \"a\", \"job options\": {\"bs\": \"big\"}}]}",
            "bs=big",
        ),
        ("<Results><TimeSpan>", "no result of fio"),
        ("<Results><TimeSpan></TimeSpan></Results>", "no profile"),
    ] {
        let error = read("file", text).unwrap_err().to_string();
        assert!(error.starts_with("file: "), "{error}");
        assert!(error.contains(part) || text.ends_with("<TimeSpan>"), "{text}: {error}");
    }
}
