//! A target of another project, or of the kernel, that was started.

use super::device::PeerDevice;
use super::kernel::session::{KernelGroup, KernelSession};
use super::peer::{DeviceWish, PeerTarget, StartMethod};
use super::running::{RunningTarget, hold};
use std::net::IpAddr;
use std::rc::Rc;
use weft_bench::study::ForeignTarget;

/// A target that serves a device.
pub struct StartedTarget {
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

impl StartedTarget {
    /// Starts a target on a free port. One of the kernel is configured by the supervisor.
    ///
    /// # Errors
    /// The reason, without a full stop.
    pub fn new(
        peer: &PeerTarget,
        device: &PeerDevice,
        address: IpAddr,
        cpus: &[usize],
        kernel: Option<&Rc<KernelSession>>,
    ) -> Result<Self, String> {
        let plan = match (&peer.how, kernel) {
            (StartMethod::Program(plan), _) => {
                let running = RunningTarget::start(peer.name, plan, device, address, cpus)?;
                return Ok(Self {
                    url: running.url.clone(),
                    setup: running.setup.clone(),
                    polls: running.polls,
                    pids: if running.forks { Vec::new() } else { running.pids() },
                    process: Rc::new(running),
                });
            }
            (StartMethod::Kernel { plan, .. }, Some(session)) => (plan, session),
            (StartMethod::Kernel { .. }, None) => {
                return Err("the kernel is not prepared".to_owned());
            }
        };
        let (plan, session) = plan;
        // The kernel listens before the port is let go.
        let (_port, address) = hold(address).map_err(|e| format!("no port is free: {e}"))?;
        let name = uuid::Uuid::new_v4().to_string();
        let wish = DeviceWish { device, memory: "", address, directory: "", name: &name, cpus };
        let plan = plan(&wish)?;
        let group = KernelGroup::new(session, None);
        let setup = plan.steps.iter().map(ToString::to_string).collect();
        group.perform(plan.steps)?;
        let process = Rc::new(group);
        Ok(Self { process, url: plan.url, setup, polls: false, pids: Vec::new() })
    }
}
