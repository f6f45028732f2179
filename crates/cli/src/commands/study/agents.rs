//! A study whose load comes from other machines.

use super::lanes::of_url;
use super::options::StudyArgs;
use super::serving::is_real;
use crate::agents::connection::{OpenedDevice, ProvenAgent};
use crate::agents::fleet::{Crew, Fleet};
use crate::agents::key::AgentKey;
use crate::process::exit::Failure;
use std::rc::Rc;
use std::sync::Arc;
use weft_bench::agents::{AgentClock, StudyMessage};
use weft_bench::limits::AGENTS_MAX;
use weft_bench::study::{KnownDevice, LanePeer, StudyLane};
use weft_bench::suite::{Machines, Suite};
use weft_block::{Atomicity, ErrorKind, Features, Geometry};
use weft_endpoint::url::without_secret;

/// The lanes, and the agents behind them.
pub struct Elsewheres {
    pub lanes: Vec<StudyLane>,
    pub fleet: Rc<Fleet>,
}

/// The device of each agent: one for all, or one for each.
fn devices(args: &StudyArgs) -> Result<Vec<String>, Failure> {
    let (agents, urls) = (args.agents.len(), &args.urls);
    let wrong = |text: String| Err(Failure::of(ErrorKind::Usage, text));
    match urls.as_slice() {
        _ if agents > AGENTS_MAX => wrong(format!("a study has at most {AGENTS_MAX} agents")),
        [] => wrong("which device? Give the URL that the agents open, or one for each of them, in their order".into()),
        [one] => Ok(vec![one.clone(); agents]),
        each if each.len() == agents => Ok(each.to_vec()),
        each => wrong(format!("there are {agents} agents and {} URLs: give one URL for all, or one for each", each.len())),
    }
}

/// Connects to all agents and has them open their devices. Nothing is measured if one of them
/// cannot.
pub fn set_up(args: &StudyArgs, suite: &Suite) -> Result<Elsewheres, Failure> {
    let asked = devices(args)?;
    let twice = args
        .agents
        .iter()
        .enumerate()
        .find(|(at, agent)| args.agents[..*at].iter().any(|o| o.place == agent.place));
    if let Some((_, agent)) = twice {
        return Err(Failure::of(
            ErrorKind::Usage,
            format!("the agent {} is named twice", agent.name()),
        ));
    }
    let key = AgentKey::read(args.key_file.as_deref())?;
    let clock = AgentClock::new();
    let mut agents: Vec<(ProvenAgent, OpenedDevice)> = Vec::new();
    for (address, url) in args.agents.iter().zip(&asked) {
        let mut agent = ProvenAgent::connect(address, &key, clock, args.connect.patience())?;
        let opened = agent.open(&open_request(args, suite, url))?;
        agents.push((agent, opened));
    }
    let geometry = common(agents.iter().map(|(_, opened)| opened));
    let features =
        Features { write: agents.iter().all(|(_, opened)| opened.write), ..Features::default() };
    let urls: Vec<String> = asked.iter().map(|url| without_secret(url)).collect();
    let url =
        if urls.iter().all(|url| *url == urls[0]) { urls[0].clone() } else { urls.join(", ") };
    let real = asked.iter().any(|url| is_real(url));
    let title =
        of_url(&asked[0]).map_or("the agents’ device", |through| through.title()).to_owned();
    let count = agents.len();
    let fleet = Rc::new(Fleet::new(clock, agents, asked, urls));
    let lane = |machines: usize| StudyLane {
        name: name_of(machines),
        title: if machines == 1 {
            format!("{title}, one machine")
        } else {
            format!("{title}, {machines} machines")
        },
        url: url.clone(),
        device: Arc::new(KnownDevice { url: url.clone(), geometry, features }),
        target_pids: Vec::new(),
        target_counters: None,
        home_counters: None,
        initiator_cpus: Vec::new(),
        target_cpus: Vec::new(),
        base: None,
        real,
        generator: Some(Rc::new(Crew {
            fleet: Rc::clone(&fleet),
            machines,
            url: url.clone(),
            geometry,
        })),
        prepared_by: (machines < count).then(|| name_of(count)),
        peer: LanePeer::default(),
    };
    let first = if suite.agents == Machines::OneToAll { 1 } else { count };
    Ok(Elsewheres { lanes: (first..=count).map(lane).collect(), fleet })
}

/// The name of the lane of `machines` agents.
fn name_of(machines: usize) -> String {
    format!("agents-{machines}")
}

fn open_request(args: &StudyArgs, suite: &Suite, url: &str) -> StudyMessage {
    StudyMessage::Open {
        url: url.to_owned(),
        write: true,
        destroy_data: args.destroy_data,
        threads: suite.threads,
        queue_size: suite.queue_size,
    }
}

/// The common geometry of all devices: the size of the smallest, in the largest blocks.
fn common<'a>(all: impl Iterator<Item = &'a OpenedDevice>) -> Geometry {
    let mut common = Geometry {
        block_bytes: 512,
        blocks: 0,
        padding_bytes: 0,
        optimal_blocks: 1,
        max_transfer_bytes: u32::MAX,
        atomic: Atomicity::ONE_BLOCK,
    };
    let mut bytes = u64::MAX;
    for opened in all {
        bytes = bytes.min(opened.blocks.saturating_mul(u64::from(opened.block_bytes)));
        common.block_bytes = common.block_bytes.max(opened.block_bytes);
        common.max_transfer_bytes = common.max_transfer_bytes.min(opened.max_transfer_bytes);
    }
    Geometry { blocks: bytes / u64::from(common.block_bytes), ..common }
}
