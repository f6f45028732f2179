//! The command line of `weft study`.

use super::gating::GateArgs;
use super::imported::{LaneFile, named};
use super::packing::PackArgs;
#[cfg(target_os = "linux")]
use super::peers;
#[cfg(target_os = "linux")]
use super::peers::Peers;
use super::reading::{Measurement, file, results};
use super::shape::Shape;
use super::site::PublishArgs;
use crate::agents::address::AgentAddress;
use crate::connection::ConnectArgs;
use crate::output::table::terminal_width;
use crate::process::exit::Failure;
use clap::{Args, Subcommand, ValueEnum};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_bench::compare::{Comparison, compare};
use weft_bench::report::Letters;
use weft_bench::results::{JSON_SCHEMA, Results};
use weft_bench::suite::{Suite, SuiteMode};
use weft_bench::workload::duration;
use weft_bench::{report, table};
use weft_block::ErrorKind;
use weft_formats::import::measured::compared;
use weft_io::output;

/// Options of `weft study`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  weft study
      NVMe/TCP against the device itself, iSCSI, and another project's target, in at most 80 seconds
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
  weft study --lanes local,nvme+tcp --peers tgt,nbdkit
      targets of other projects on a RAM disk, next to weft's over the same protocols
  sudo weft study --suite null --peers kernel
      targets and initiators of the Linux kernel: nvmet, LIO, nvme-tcp, open-iscsi
  weft study --suite null --lanes nvme+tcp,nvme+rdma --address 10.0.0.1
      RDMA against TCP, on the RDMA device that has this address
  weft study compare before/results.json after/results.json
      what changed in relation to bare TCP and the local device, and whether it is more than noise
  weft study gate after/results.json --baseline before/results.json --lose 5%
      fails where a relation is worse by more than 5 %, for CI
  weft study render results.json --output-dir report --also png
      the report again, from the results of an earlier study
  weft study --target nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      an existing target; weft OVERWRITES ITS NAMESPACE
  weft study --suite clients --agents rack1,rack2 --key-file agent.key nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      one and two client machines, each with weft agent, on one target; THEY OVERWRITE ITS NAMESPACE"
)]
pub struct StudyArgs {
    #[command(subcommand)]
    pub(super) command: Option<StudyCommand>,
    /// Shorter, with fewer rounds, for a first look
    #[arg(long, conflicts_with = "full")]
    pub(super) quick: bool,
    /// As long as in the published comparison, or longer
    #[arg(long)]
    pub(super) full: bool,
    /// Measurements to run: a suite of --list-suites, or the path of a file
    #[arg(long, value_name = "NAME|FILE", default_value = Suite::USUAL)]
    pub(super) suite: String,
    /// Show the suites that ship with weft, and exit
    #[arg(long)]
    pub(super) list_suites: bool,
    /// Print the suite's file, and exit
    #[arg(long)]
    pub(super) print: bool,
    /// Lanes of the suite, or protocols, measured in turn [default: all of the suite's; with
    /// --source without flash]
    #[arg(long, value_delimiter = ',', value_name = "LANES", conflicts_with = "target")]
    pub(super) lanes: Vec<String>,
    /// A lane of your own: a URL, or a disk that another initiator attached, with fio: before it
    /// measured by fio; weft overwrites it; may be repeated
    #[arg(long = "lane", value_name = "NAME=URL", value_parser = given, conflicts_with = "target")]
    pub(super) given: Vec<LaneOption>,
    /// Results of fio (JSON), DISKSPD (XML or text) or vdbench (flatfile.html) as a lane; several
    /// files of one name are its rounds
    #[arg(long = "import", value_name = "NAME=FILE", value_parser = named)]
    pub(super) imports: Vec<LaneFile>,
    /// Device to measure; weft overwrites it [default: the suite's; of network ram:256MiB, of null
    /// null:250GiB]
    #[arg(long, conflicts_with = "target")]
    pub(super) source: Option<String>,
    /// Targets and load generators of other projects, in addition to weft's: auto (one target, if
    /// one is installed), none, all, or some of tgt, nbdkit, qemu-nbd, nbd-server, spdk,
    /// iscsi-perf, fio, spdk-perf, hypervisor-qemu-iscsi, hypervisor-qemu-nbd; for root kernel, or
    /// some of nvmet, lio, nvme-tcp, open-iscsi, nbd-client [default: the suite's; of network auto,
    /// of matrix all]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "PEERS", value_parser = peers::parse,
          conflicts_with_all = ["target", "agents"])]
    pub(super) peers: Option<Peers>,
    /// Address of this machine at which the lanes' targets listen; for nvme+rdma that of an RDMA
    /// device [default: 127.0.0.1]
    #[arg(long, value_name = "IP", conflicts_with = "target")]
    pub(super) address: Option<std::net::IpAddr>,
    /// Cause of the distance of lanes that have one: relay, a process of weft, or netem of Linux,
    /// for root, between two network namespaces [default: relay]
    #[arg(long, value_name = "SHAPE", conflicts_with_all = ["target", "agents"])]
    pub(super) shape: Option<Shape>,
    /// Existing target to measure, instead of weft's; weft overwrites the namespace
    #[arg(long)]
    pub(super) target: Option<String>,
    /// Overwrite also where a partition table, a file system or the like is recognised
    #[arg(long)]
    pub(super) destroy_data: bool,
    /// Machines with weft agent that put the load on instead of this one: HOST, HOST:PORT, or
    /// either with @sha256:FINGERPRINT
    #[arg(long, value_delimiter = ',', value_name = "AGENTS", value_parser = AgentAddress::parse,
          conflicts_with_all = ["lanes", "given", "imports", "source", "address", "target"])]
    pub(super) agents: Vec<AgentAddress>,
    /// Device that the agents open and overwrite, as their configuration lists it: one for all, or
    /// one for each
    #[arg(value_name = "URL", requires = "agents")]
    pub(super) urls: Vec<String>,
    /// File with the key of the agents; otherwise WEFT_AGENT_KEY has it
    #[arg(long, value_name = "FILE", requires = "agents")]
    pub(super) key_file: Option<PathBuf>,
    /// Most time [default: the suite's; of network 80s, with --quick 30s; of null 45s, with --quick
    /// 8s]
    #[arg(long, alias = "budget", value_name = "TIME", value_parser = duration)]
    pub(super) time_budget: Option<Duration>,
    /// Seed of the order in which the lanes take turns [default: the time]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) publishing: Publishing,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

impl StudyArgs {
    pub(super) fn mode(&self) -> SuiteMode {
        match (self.quick, self.full) {
            (true, _) => SuiteMode::Quick,
            (_, true) => SuiteMode::Full,
            _ => SuiteMode::Usual,
        }
    }
}

/// `NAME=URL`.
#[derive(Clone, Debug)]
pub struct LaneOption {
    pub(super) name: String,
    pub(super) url: String,
}

/// Parses a value of `--lane`.
fn given(text: &str) -> Result<LaneOption, String> {
    match text.split_once('=') {
        Some((name, url))
            if !name.is_empty() && !name.contains([' ', ',', ':', '/']) && !url.is_empty() =>
        {
            Ok(LaneOption { name: name.to_owned(), url: url.to_owned() })
        }
        _ => {
            Err("use NAME=URL, as in remote=nvme+tcp://HOST/NQN or attached=/dev/nvme1n1"
                .to_owned())
        }
    }
}

// `weft study compare`, `gate`, `pack`, `publish`, `render` and `schema`: what can be done with results.

/// Commands on results.
#[derive(Subcommand, Debug)]
pub enum StudyCommand {
    /// Compare two studies: what changed in relation to bare TCP and to the device without a
    /// network, and whether it is more than noise
    #[command(after_help = "\
Examples:
  weft study compare before/results.json after/results.json
      the same suite before and after a change, or on two systems
  weft study compare monday/results.json friday/results.json
      two days: relations can be compared although the machine is faster on one of them
  weft study compare before.json after.json
      two runs of fio, DISKSPD or vdbench: what changed, without a verdict, as one run has no interval")]
    Compare {
        /// The results.json of the earlier study, or results of fio, DISKSPD or vdbench
        before: PathBuf,
        /// That of the later study, or run of the same tool
        after: PathBuf,
    },
    /// Judge a study by an earlier one, for CI
    ///
    /// It fails where a relation of two lanes or a count is worse by more than a given part.
    #[command(after_help = "\
Examples:
  weft study gate after/results.json --baseline before/results.json --lose 5%
      exit status 14 where a relation of two lanes is worse by more than 5 %, with all of the 95 %
      interval of its change
  weft study gate results.json --baseline baseline.json --counts-only --junit gate.xml
      by bytes on the wire and bytes copied, which do not depend on the load of the machine
  weft study gate results.json --baseline baseline.json --lanes nvme+tcp --summary $GITHUB_STEP_SUMMARY
      one lane, with a table in the summary of a job")]
    Gate(GateArgs),
    /// Remove names, addresses and secrets from results
    ///
    /// Replaces all text that is not known to be harmless: names of hosts and users, addresses, serial
    /// numbers, paths, NQNs and IQNs, also in commands, URLs and notes.
    #[command(after_help = "\
Examples:
  weft study pack results.json -o packed.json
      results that can be given away, and a list of what was removed
  weft study pack results.json -o packed.json --keep kernel,spdk-6
      the same; these two lanes of the user keep their names")]
    Pack(PackArgs),
    /// Make a site of many studies
    ///
    /// It has an index and the report of each study, needs no scripts, and works with any web server
    /// or none.
    #[command(after_help = "\
Examples:
  weft study publish site results/*.json
      site/index.html, by machine, system, network and version
  weft study publish site results/*.json more/results.json
      the same site with a further study")]
    Publish(PublishArgs),
    /// Write the report of a study again
    #[command(after_help = "\
Examples:
  weft study render results.json --output-dir report --also markdown,png
      report.html, report.md and the charts of an earlier study")]
    Render {
        /// The results.json of the study
        results: PathBuf,
        #[command(flatten)]
        publishing: Publishing,
    },
    /// Print the JSON schema of results.json
    #[command(after_help = "\
Examples:
  weft study schema > results.schema.json
      a schema with which programs check what they read")]
    Schema,
}

impl StudyCommand {
    pub fn run(&self) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        match self {
            Self::Compare { before, after } => write!(out, "{}", both(before, after)?.render())?,
            Self::Gate(gate) => gate.run(&mut out)?,
            Self::Pack(pack) => pack.run(&mut out)?,
            Self::Publish(publish) => publish.run(&mut out)?,
            Self::Render { results: path, publishing } => {
                let page = publishing.prepare()?.report(&results(path)?)?;
                writeln!(out, "Report: {}", page.display())?;
            }
            Self::Schema => write!(out, "{JSON_SCHEMA}")?,
        }
        Ok(())
    }
}

/// Compares two files, which are of studies or of the same other tool.
fn both(before: &Path, after: &Path) -> Result<Comparison, Failure> {
    match (file(before)?, file(after)?) {
        (Measurement::Study(before), Measurement::Study(after)) => Ok(compare(&before, &after)),
        (Measurement::Tool(one, before), Measurement::Tool(other, after))
            if is_same(&one, &other) =>
        {
            let failed = |why| Failure::of(ErrorKind::Usage, why);
            compared(&one, &before, &after).map_err(failed)
        }
        _ => {
            let text = "the files are of different tools; `weft study --import NAME=FILE` adds results of another tool to a study";
            Err(Failure::of(ErrorKind::Usage, text.to_owned()))
        }
    }
}

/// Returns whether two names of tools, which may have a version, are of the same one.
fn is_same(one: &str, other: &str) -> bool {
    let tool = |name: &str| name.split([' ', '-']).next().unwrap_or_default().to_owned();
    tool(one) == tool(other)
}

// The files of a report, and the table on the terminal.

/// The files to write, and their places.
#[derive(Args, Debug)]
pub struct Publishing {
    /// Directory for report.html and results.json
    #[arg(long, default_value = ".")]
    output_dir: PathBuf,
    /// Further files next to report.html and results.json: report.md, results.csv, a .svg or a .png
    /// for each chart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMATS")]
    also: Vec<Format>,
}

/// A further file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Words and tables, for issues and documents
    Markdown,
    /// All rows, for spreadsheets
    Csv,
    /// Each chart by itself
    Svg,
    /// Each chart as a picture, in light colours; takes a font of the system [needs: a build with
    /// --features full]
    Png,
}

/// The means to write the files, checked before anything is measured, as a study may take an
/// hour.
pub struct Publisher<'a> {
    wanted: &'a Publishing,
    letters: Option<Letters>,
}

impl Publishing {
    /// Checks that the files can be written, and looks for letters if pictures are wanted.
    pub fn prepare(&self) -> Result<Publisher<'_>, Failure> {
        writable(&self.output_dir)?;
        let letters =
            if self.also.contains(&Format::Png) { Some(Letters::of_the_system()?) } else { None };
        Ok(Publisher { wanted: self, letters })
    }
}

impl Publisher<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.wanted.output_dir.join(name)
    }

    /// Writes report and results, and prints the table.
    pub fn publish(&self, results: &Results) -> Result<(), Failure> {
        let data = self.path("results.json");
        let json = results.to_json()?;
        write(&data, format!("{json}\n"))?;
        let page = self.report(results)?;
        let mut out = std::io::stdout().lock();
        let width = if out.is_terminal() { terminal_width() } else { None };
        writeln!(out, "{}", table::render(results, width))?;
        writeln!(out, "Report: {}\nData:   {}", page.display(), data.display())?;
        Ok(())
    }

    /// Writes the report, and the further files. Returns the place of the report.
    pub fn report(&self, results: &Results) -> Result<PathBuf, Failure> {
        let (page, also) = (self.path("report.html"), &self.wanted.also);
        write(&page, report::html(results))?;
        if also.contains(&Format::Markdown) {
            write(&self.path("report.md"), report::markdown(results))?;
        }
        if also.contains(&Format::Csv) {
            write(&self.path("results.csv"), report::csv(results))?;
        }
        if also.contains(&Format::Svg) {
            report::charts(results)
                .iter()
                .try_for_each(|(name, chart)| write(&self.path(&format!("{name}.svg")), chart))?;
        }
        if let Some(letters) = &self.letters {
            let pictures = report::pictures(results, letters)?;
            pictures.iter().try_for_each(|(name, picture)| {
                write(&self.path(&format!("{name}.png")), picture)
            })?;
        }
        Ok(page)
    }
}

/// Checks that files can be written there.
fn writable(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::metadata(dir))
        .and_then(|facts| {
            if facts.permissions().readonly() {
                Err(std::io::ErrorKind::PermissionDenied.into())
            } else {
                Ok(())
            }
        })
        .map_err(|e| cannot_write(dir, e))
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    output::write(path, content).map_err(|e| cannot_write(path, e))
}

fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
    weft_block::Error::io(
        format!(
            "cannot write {}: {error}; choose another directory with --output-dir",
            path.display()
        ),
        error,
    )
    .into()
}
