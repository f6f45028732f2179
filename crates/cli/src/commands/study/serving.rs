//! The processes of a study: targets, and the server of bare TCP.

use super::super::child::Spawned;
use super::stage::Cores;
use crate::exit::Failure;
use std::net::{IpAddr, SocketAddr};

/// A target of a device, with an address for each scheme.
pub fn serve(
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
    Spawned::start(&args)
}

/// The server of bare TCP, with a region of so many bytes.
pub fn ceiling(bytes: u64, cores: &Cores) -> Result<Spawned, Failure> {
    let memory = bytes.to_string();
    let mut args = vec!["ceiling", "--memory", &memory];
    let cpu = cores.target.first().map(usize::to_string);
    if let Some(cpu) = &cpu {
        args.extend(["--cpu", cpu]);
    }
    Spawned::start(&args)
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
