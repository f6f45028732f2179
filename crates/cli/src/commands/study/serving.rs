//! The processes of a study: targets, and the server of bare TCP; their cores and their URLs.

use super::super::internal::child::Spawned;
use crate::process::exit::Failure;
use std::net::{IpAddr, SocketAddr};
use weft_bench::study::ForeignTarget;
use weft_bench::suite::{LaneTemplate, Through};
use weft_block::{ErrorKind, grammar};

/// The cores of the two ends, as many of each; none if this process may use only one.
pub struct Cores {
    pub target: Vec<usize>,
    pub initiator: Vec<usize>,
}

impl Cores {
    /// As many as a suite has loops, as far as there are: the target's are the first.
    pub fn choose(threads: u32) -> Self {
        let allowed = weft_io::cpu::allowed();
        let each = (threads as usize).min(allowed.len() / 2);
        Self { target: allowed[..each].to_vec(), initiator: allowed[each..2 * each].to_vec() }
    }

    /// Loops of each end.
    pub fn loops(&self) -> usize {
        self.target.len().max(1)
    }
}

/// Lanes through the kernel keep weft's own targets, too, until the kernel has let go of them. They
/// never rest.
impl ForeignTarget for Spawned {
    fn wake(&self) {}

    fn rest(&self) {}
}

/// A target of a device, with an address for each scheme.
pub fn serve(
    source: &str,
    schemes: &[String],
    address: IpAddr,
    cores: &Cores,
) -> Result<Spawned, Failure> {
    serve_in(None, source, schemes, address, cores)
}

/// The same in a network namespace, if one is given.
pub fn serve_in(
    namespace: Option<&str>,
    source: &str,
    schemes: &[String],
    address: IpAddr,
    cores: &Cores,
) -> Result<Spawned, Failure> {
    let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid::Uuid::new_v4());
    let threads = cores.loops().to_string();
    let mut args = vec!["serve", source, "--until-eof", "--threads", &threads, "--nqn", &nqn];
    let places: Vec<String> =
        schemes.iter().map(|scheme| format!("{scheme}{}", SocketAddr::new(address, 0))).collect();
    args.extend(places.iter().flat_map(|place| ["--listen", place]));
    let cpus = list(&cores.target);
    if !cpus.is_empty() {
        args.extend(["--cpus_allowed", &cpus]);
    }
    Spawned::start_in(namespace, &args)
}

/// Starts the server of bare TCP, with a region of `bytes` bytes.
pub fn ceiling(bytes: u64, cores: &Cores) -> Result<Spawned, Failure> {
    let memory = bytes.to_string();
    let mut args = vec!["ceiling", "--memory", &memory];
    let cpu = cores.target.first().map(usize::to_string);
    if let Some(cpu) = &cpu {
        args.extend(["--cpu", cpu]);
    }
    Spawned::start(&args)
}

/// Cores as the option `--cpus_allowed` has them.
pub fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

pub fn url_of(target: &Spawned, template: &LaneTemplate, source: &str) -> Result<String, Failure> {
    target.url_of(&scheme(template.through)).map(str::to_owned).ok_or_else(|| {
        let name = template.through.title();
        Failure::of(
            ErrorKind::Io,
            format!("the target of {source} does not report where it listens for {name}"),
        )
    })
}

/// The scheme of the URLs of a protocol.
pub fn scheme(through: Through) -> String {
    format!("{}://", through.name())
}

/// Returns whether a device keeps its data on something that wears or has caches of its own: a file
/// or a disk.
pub fn is_real(url: &str) -> bool {
    !grammar::sources(url).iter().all(|source| grammar::is_memory(source.url))
}

/// Both measured ends open the file, in this process and in the target; `lock=off` allows this.
pub fn unlocked(source: &str) -> String {
    grammar::with_option(source, "lock=off", |source| grammar::path(source).is_some())
}
