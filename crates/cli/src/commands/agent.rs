//! `weft agent`: lets studies of other machines put load on devices from here.

use std::{
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use clap::Args;
use weft_bench::agents::AgentClock;
use weft_block::ErrorKind;
use weft_endpoint::Control;

use crate::{
    agents::{
        config::AgentConfig,
        identity::AgentIdentity,
        key::{self, AgentKey},
        server::AgentServer,
        session::Shop,
    },
    connection::ConnectArgs,
    process::{exit::Failure, signals},
};

/// Options of `weft agent`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft agent --make-key agent.key
      a key, once; copy it to the study's machine and to all agents, readable for you alone
  weft agent --config agent.toml
      an agent that touches only the devices that its configuration lists
  weft agent --fingerprint
      the fingerprint of this machine's certificate, to compare it or to give it to the study

A configuration:
  listen = \"0.0.0.0:4430\"
  key_file = \"agent.key\"
  [[device]]
  url = \"nvme+tcp://192.0.2.10/nqn.2014-08.org.example:scratch\"
  write = true")]
pub struct AgentArgs {
    /// Where to listen, and the devices that studies may use, as a TOML file
    #[arg(long, value_name = "FILE", required_unless_present_any = ["make_key", "fingerprint"])]
    config: Option<PathBuf>,
    /// File with the key, if the configuration names none; otherwise WEFT_AGENT_KEY has it
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Make a key and write it to a new file, and exit
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "fingerprint"])]
    make_key: Option<PathBuf>,
    /// Print the fingerprint of this machine's certificate, which is made the first time, and exit
    #[arg(long, conflicts_with = "config")]
    fingerprint: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Serves studies until it is ended.
pub fn run(args: AgentArgs, control: &Control) -> Result<(), Failure> {
    if let Some(path) = &args.make_key {
        return key::make(path);
    }
    let identity = AgentIdentity::lasting()?;
    let mut out = std::io::stdout().lock();
    if args.fingerprint {
        return Ok(writeln!(out, "{}", identity.fingerprint())?);
    }
    let path = args.config.ok_or_else(|| Failure::of(ErrorKind::Usage, "give --config FILE"))?;
    let config = AgentConfig::read(&path)?;
    let key = AgentKey::read(args.key_file.as_deref().or(config.key_file.as_deref()))?;
    let stop = AtomicBool::new(false);
    let shop = Arc::new(Shop {
        config,
        connect: args.connect,
        control: control.clone(),
        clock: AgentClock::new(),
        stop,
    });
    let server = AgentServer::bind(Arc::clone(&shop), &identity, key)?;
    signals::watch(move || shop.stop.store(true, Relaxed), None::<fn()>)?;
    writeln!(out, "agent at {}\nfingerprint {}", server.address()?, identity.fingerprint())?;
    out.flush()?;
    drop(out);
    server.run();
    Ok(())
}
