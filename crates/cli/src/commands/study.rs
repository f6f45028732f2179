//! `weft study`: measures the cost of the fabric on this machine.

mod agents;
mod comparing;
mod composed;
mod fio;
mod imported;
mod lanes;
mod publishing;
mod serving;
mod setup;

use crate::agents::address::Address;
use crate::agents::fleet::Fleet;
use crate::connection::ConnectArgs;
use crate::exit::Failure;
use crate::progress::Bar;
use clap::Args;
use comparing::StudyCommand;
use lanes::{Given, given};
use publishing::Publishing;
use serving::Cores;
use setup::Setup;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_bench::results::Skipped;
use weft_bench::study::{LaneSet, SetUp, StudyProgress, StudySpec, run as run_study};
use weft_bench::suite::{Mode, Suite};
use weft_bench::workload::duration;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::limits::IN_CAPSULE_BYTES;
use weft_endpoint::url::without_secret;

/// Options of `weft study`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  weft study
      a RAM disk and a modelled flash device, each locally and over NVMe/TCP, in at most 80 seconds
  weft study --quick
      the same in at most 30 seconds, for a first look
  weft study --suite patterns
      the same devices under thirteen patterns, in three minutes
  weft study --source file:/srv/disk.img,size=4GiB
      a file; weft OVERWRITES ALL OF IT
  weft study --lanes local,nvme+tcp,iscsi,nbd
      the same device over three protocols
  weft study --lanes flash,nvme+tcp,iscsi
      a modelled flash device only: a read takes 80 us, a write 20 us
  weft study --list-suites
      the published comparisons that weft reproduces
  weft study --suite null --quick
      iSCSI and NVMe/TCP on a null device: 256 jobs at depth 1, in ten seconds
  weft study --suite initiators --lane attached=/dev/nvme1n1
      with a disk that the kernel attached as a further lane; weft OVERWRITES IT
  weft study --suite null --lane weft=nbd://127.0.0.1/disk --lane fio=fio:nbd://127.0.0.1/disk
      fio and weft bench on one device, in turn with the other lanes, and whether they agree
  weft study --suite protocols --print >mine.toml; weft study --suite ./mine.toml
      a suite of your own
  weft study --suite null --import other=fio.json
      with what fio measured elsewhere as a further lane
  weft study --suite null --lanes nvme+tcp,nvme+rdma --address 10.0.0.1
      RDMA against TCP, on the RDMA device that has this address
  weft study compare before/results.json after/results.json
      what changed in relation to bare TCP and the local device, and whether it is more than noise
  weft study render results.json --output-dir report --also png
      the report again, from the results of an earlier study
  weft study --target nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      an existing target; weft OVERWRITES ITS NAMESPACE
  weft study --suite clients --agents rack1,rack2 --key-file agent.key nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      one and two client machines, each with weft agent, on one target; THEY OVERWRITE ITS NAMESPACE"
)]
pub struct StudyArgs {
    #[command(subcommand)]
    command: Option<StudyCommand>,
    /// Shorter, with fewer rounds, for a first look
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// As long as in the published comparison, or longer
    #[arg(long)]
    full: bool,
    /// Measurements to run: a suite of --list-suites, or the path of a file
    #[arg(long, value_name = "NAME|FILE", default_value = Suite::USUAL)]
    suite: String,
    /// Show the suites that ship with weft, and exit
    #[arg(long)]
    list_suites: bool,
    /// Print the suite's file, and exit
    #[arg(long)]
    print: bool,
    /// Lanes of the suite, or protocols, measured in turn [default: all of the suite's; with
    /// --source without flash]
    #[arg(long, value_delimiter = ',', value_name = "LANES", conflicts_with = "target")]
    lanes: Vec<String>,
    /// A lane of your own: a URL, or a disk that another initiator attached, with fio: before it
    /// measured by fio; weft overwrites it; may be repeated
    #[arg(long = "lane", value_name = "NAME=URL", value_parser = given, conflicts_with = "target")]
    given: Vec<Given>,
    /// Results of fio (JSON), DISKSPD (XML) or vdbench (flatfile.html) as a lane; several files of
    /// one name are its rounds
    #[arg(long = "import", value_name = "NAME=FILE", value_parser = imported::named)]
    imports: Vec<imported::Named>,
    /// Device to measure; weft overwrites it [default: the suite's; of network ram:256MiB, of null
    /// null:250GiB]
    #[arg(long, conflicts_with = "target")]
    source: Option<String>,
    /// Address of this machine at which the lanes' targets listen; for nvme+rdma that of an RDMA
    /// device [default: 127.0.0.1]
    #[arg(long, value_name = "IP", conflicts_with = "target")]
    address: Option<std::net::IpAddr>,
    /// Existing target to measure, instead of weft's; weft overwrites the namespace
    #[arg(long)]
    target: Option<String>,
    /// Overwrite also where a partition table, a file system or the like is recognised
    #[arg(long)]
    destroy_data: bool,
    /// Machines with weft agent that put the load on instead of this one: HOST, HOST:PORT, or
    /// either with @sha256:FINGERPRINT
    #[arg(long, value_delimiter = ',', value_name = "AGENTS", value_parser = agents::agent,
          conflicts_with_all = ["lanes", "given", "imports", "source", "address", "target"])]
    agents: Vec<Address>,
    /// Device that the agents open and overwrite, as their configuration lists it: one for all, or
    /// one for each
    #[arg(value_name = "URL", requires = "agents")]
    urls: Vec<String>,
    /// File with the key of the agents; otherwise WEFT_AGENT_KEY has it
    #[arg(long, value_name = "FILE", requires = "agents")]
    key_file: Option<PathBuf>,
    /// Most time [default: the suite's; of network 80s, with --quick 30s; of null 45s, with --quick
    /// 8s]
    #[arg(long, alias = "budget", value_name = "TIME", value_parser = duration)]
    time_budget: Option<Duration>,
    /// Seed of the order in which the lanes take turns [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    publishing: Publishing,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the study, prints the table and writes the report.
pub fn run(args: StudyArgs, control: &Control) -> Result<(), Failure> {
    if let Some(command) = &args.command {
        return command.run();
    }
    if args.list_suites {
        return list();
    }
    let suite = Suite::named(&args.suite)?;
    if args.print {
        std::io::stdout().lock().write_all(suite.text.as_bytes())?;
        return Ok(());
    }
    let publisher = args.publishing.prepare()?;
    let imports = imported::read(&args.imports)?;
    let cores = Cores::choose(suite.threads);
    let Scene { stage, skipped, fleet } = args.scene(&suite, &cores, control)?;
    let again = fleet.is_none().then(|| args.again(suite.clone(), &cores, control));
    let stop = Arc::new(AtomicBool::new(false));
    let signalled = Arc::clone(&stop);
    // Without the handler a signal ends the study without a report; that is no reason to refuse to
    // run.
    let _ = ctrlc::set_handler(move || signalled.store(true, Ordering::Relaxed));
    let spec = StudySpec {
        suite,
        mode: args.mode(),
        budget: args.time_budget,
        seed: args.seed.unwrap_or_else(seed_of_now),
        command: std::env::args().map(|arg| masked(&arg)).collect(),
        stage,
        set_up: again,
        skipped,
        ceiling_cpu: cores.initiator.first().copied(),
        in_capsule_bytes: IN_CAPSULE_BYTES,
        stop,
    };
    let stopped = Arc::clone(&spec.stop);
    let mut bar = Bar::new();
    eprintln!("{}", announced(&spec));
    let mut results =
        run_study(spec, &mut |p| bar.set("study", p.fraction, Some(p.eta), &shown(&p)))?;
    bar.finish();
    fleet.iter().for_each(|fleet| fleet.add_to(&mut results));
    weft_formats::import::measured::add(&mut results, &imports)
        .map_err(|e| Failure::of(ErrorKind::Usage, e.to_string()))?;
    publisher.publish(&results)?;
    if stopped.load(Ordering::Relaxed) {
        return Err(Failure::new(
            Failure::INTERRUPTED,
            "interrupted; the report covers the time until then",
        ));
    }
    Ok(())
}

/// What is measured, and what it takes.
struct Scene {
    stage: LaneSet,
    skipped: Vec<Skipped>,
    fleet: Option<Rc<Fleet>>,
}

/// How long a study is likely to take, in one line.
fn announced(spec: &StudySpec<'_>) -> String {
    let (least, most) = spec.expected();
    let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64().ceil());
    if least == most {
        return format!("weft study: about {}", seconds(most));
    }
    let percent = spec.within() * 100.0;
    format!(
        "weft study: {} to {}, until the headline is within ±{percent} %",
        seconds(least),
        seconds(most)
    )
}

/// What the progress line says: the headline so far, as soon as there is one.
fn shown(progress: &StudyProgress<'_>) -> String {
    match progress.so_far {
        "" => format!("{}, {}", progress.name, progress.what),
        so_far => so_far.to_owned(),
    }
}

/// The suites that ship with weft.
fn list() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for suite in Suite::shipped() {
        let lanes: Vec<&str> = suite.lanes.iter().map(|lane| lane.name.as_str()).collect();
        writeln!(
            out,
            "{:<12}{}\n{:<12}lanes: {}; {} workloads",
            suite.name,
            suite.title,
            "",
            lanes.join(", "),
            suite.workloads.len()
        )?;
    }
    Ok(())
}

fn seed_of_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// An argument without what may be a secret: that of an option `NAME=URL` as well.
fn masked(arg: &str) -> String {
    match arg.split_once('=') {
        Some((name, url)) if !name.contains("://") => format!("{name}={}", masked(url)),
        _ => without_secret(arg),
    }
}

impl StudyArgs {
    fn mode(&self) -> Mode {
        match (self.quick, self.full) {
            (true, _) => Mode::Quick,
            (_, true) => Mode::Full,
            _ => Mode::Usual,
        }
    }

    fn scene(&self, suite: &Suite, cores: &Cores, control: &Control) -> Result<Scene, Failure> {
        if !self.agents.is_empty() {
            let agents::Elsewheres { lanes, fleet } = agents::set_up(self, suite)?;
            let stage = LaneSet { lanes, ceiling: None };
            return Ok(Scene { stage, skipped: Vec::new(), fleet: Some(fleet) });
        }
        let set_up = Setup::start(self, suite, cores, control)?;
        let skipped = set_up.skipped.clone();
        Ok(Scene { stage: set_up.into_measured()?, skipped, fleet: None })
    }

    /// Sets the same up again.
    fn again<'a>(&'a self, suite: Suite, cores: &'a Cores, control: &'a Control) -> SetUp<'a> {
        Box::new(move || {
            let again = Setup::start(self, &suite, cores, control).and_then(Setup::into_measured);
            again.map_err(|failure| {
                weft_block::Error::new(ErrorKind::Io, failure.to_string()).into()
            })
        })
    }
}
