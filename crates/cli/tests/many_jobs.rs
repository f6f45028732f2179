//! 256 jobs with one operation each: they cost a few threads, and share queues where the target
//! grants fewer.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, Server, weft};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use weft_testing::wait::until_some;

const JOBS: usize = 256;

/// Threads that a run of the bench may have: two loops, and those of the program itself. Far from
/// one for each job.
const THREADS_MAX: usize = 12;

/// Operations of each job.
const IOS: u64 = 50;

/// Runs the jobs on `url`; gives their report and the most threads that were seen meanwhile.
fn measure(dir: &Path, url: &str, more: &[&str]) -> (Value, usize) {
    let args = [
        "bench",
        url,
        "--rw=randrw",
        "--rwmixread=70",
        "--bs=4k",
        "--iodepth=1",
        "--numjobs=256",
        "--threads=2",
    ];
    let mut command = weft(dir, &args);
    command
        .args(["--time_based=0", "--output-format=json"])
        .arg(format!("--number_ios={IOS}"))
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let output = std::thread::spawn(move || child.wait_with_output().unwrap());
    let mut most = 0;
    while !output.is_finished() {
        // A process that has just ended has none.
        most = most.max(std::fs::read_dir(&tasks).map_or(0, Iterator::count));
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = output.join().unwrap();
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), most)
}

fn all_run_on_few_threads(listen: &str, more: &[&str]) {
    let dir = Scratch::new("many-jobs");
    let server = Server::start(dir.path(), &["null:1GiB", "--threads", "1", "--listen", listen]);
    // A loaded machine may not let this process look in time: then another run is looked at.
    let (report, threads) = until_some("the threads of a run are seen", || {
        Some(measure(dir.path(), server.url(), more)).filter(|(_, threads)| *threads >= 3)
    });
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), JOBS, "{listen} {more:?}");
    for job in jobs {
        let ios = job["read"]["total_ios"].as_u64().unwrap()
            + job["write"]["total_ios"].as_u64().unwrap();
        assert!(
            ios == IOS && job["error"] == 0,
            "{listen} {more:?}: job {} did {ios}",
            job["jobname"]
        );
    }
    assert!(threads <= THREADS_MAX, "{listen} {more:?}: {threads} threads");
}

#[test]
fn over_nvme_tcp_they_share_the_128_queues_that_are_granted() {
    all_run_on_few_threads("nvme+tcp://127.0.0.1:0", &[]);
}

#[test]
fn over_nvme_tcp_they_share_three_queues() {
    all_run_on_few_threads("nvme+tcp://127.0.0.1:0", &["--nr-io-queues=3"]);
}

#[test]
fn over_iscsi_they_may_have_a_session_each() {
    all_run_on_few_threads("iscsi://127.0.0.1:0", &[]);
}

#[test]
fn over_iscsi_they_share_two_sessions() {
    all_run_on_few_threads("iscsi://127.0.0.1:0", &["--nr-io-queues=2"]);
}
