//! A target of another project, or of the kernel, that was started.

use super::device::Device;
use super::kernel::session::{Group, Session};
use super::peer::{How, Peer, Wish};
use super::running::{Running, hold};
use std::net::IpAddr;
use std::rc::Rc;
use weft_bench::study::ForeignTarget;

/// A target that serves a device.
pub struct Started {
    /// Ends it when it is dropped.
    pub process: Rc<dyn ForeignTarget>,
    /// URL of its device.
    pub url: String,
    /// Commands and configuration.
    pub setup: Vec<String>,
    /// It uses its cores even while it is idle.
    pub polls: bool,
    /// Its processes; none if their processor time is not known from outside.
    pub pids: Vec<u32>,
}

impl Started {
    /// Starts a target on a free port. One of the kernel is configured by the supervisor.
    ///
    /// # Errors
    /// The reason, without a full stop.
    pub fn new(
        peer: &Peer,
        device: &Device,
        address: IpAddr,
        cpus: &[usize],
        kernel: Option<&Rc<Session>>,
    ) -> Result<Self, String> {
        let plan = match (&peer.how, kernel) {
            (How::Program(plan), _) => {
                let running = Running::start(peer.name, plan, device, address, cpus)?;
                return Ok(Self {
                    url: running.url.clone(),
                    setup: running.setup.clone(),
                    polls: running.polls,
                    pids: if running.forks { Vec::new() } else { running.pids() },
                    process: Rc::new(running),
                });
            }
            (How::Kernel { plan, .. }, Some(session)) => (plan, session),
            (How::Kernel { .. }, None) => return Err("the kernel is not prepared".to_owned()),
        };
        let (plan, session) = plan;
        // The kernel listens before the port is let go.
        let (_port, address) = hold(address).map_err(|e| format!("no port is free: {e}"))?;
        let name = uuid::Uuid::new_v4().to_string();
        let wish = Wish { device, memory: "", address, directory: "", name: &name, cpus };
        let plan = plan(&wish)?;
        let group = Group::new(session, None);
        let setup = plan.steps.iter().map(ToString::to_string).collect();
        group.perform(plan.steps)?;
        let process = Rc::new(group);
        Ok(Self { process, url: plan.url, setup, polls: false, pids: Vec::new() })
    }
}
