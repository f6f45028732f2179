//! The setup of a study: its lanes, open, and the processes that serve them.

use super::super::internal::child::Spawned;
use super::fio::{self, Fio};
use super::lanes::{Chosen, choose};
use super::lateness::Lateness;
use super::options::StudyArgs;
#[cfg(target_os = "linux")]
use super::peers::kernel::session::KernelSession;
use super::serving::{Cores, ceiling, is_real, scheme, serve, unlocked, url_of};
use super::shape::Shape;
use crate::process::exit::Failure;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_bench::results::{Cell, Skipped};
use weft_bench::study::{CeilingServer, ForeignTarget, LanePeer, LaneSet, ReadCounters, StudyLane};
use weft_bench::suite::{LaneTemplate, Suite, Through};
use weft_block::{Device, ErrorKind};
use weft_endpoint::{ConnectOptions, Control, existing_data};
use weft_formats::import::measured::fio_run::FioAccess;

/// A modelled flash device for servers; a device of the same size without data follows it in the
/// URL.
const FLASH: &str = "delay:read=80us,write=20us,depth=32,rate=7GB";

/// Maximum region of the ceiling's server, because it takes up memory of this machine.
const CEILING_BYTES_MAX: u64 = 1 << 30;

/// The same for a device without data: small enough to stay in a cache.
const NULL_CEILING_BYTES: u64 = 64 << 10;

/// Longest time of a lane without its target; then the study fails instead of waiting.
const OUTAGE: Duration = Duration::from_secs(30);

/// The lanes and processes of a study; the processes end with it.
pub struct Setup {
    pub lanes: Vec<StudyLane>,
    pub skipped: Vec<Skipped>,
    pub ceiling: Spawned,
}

/// Common settings of all lanes of a study.
pub struct StudySetup<'a> {
    pub source: String,
    pub address: Option<IpAddr>,
    pub options: ConnectOptions,
    pub cores: &'a Cores,
    /// Overwrite whatever is recognised on a device.
    pub destroy_data: bool,
    /// Lateness of the relays.
    pub lateness: Lateness,
    /// The cause of distances.
    pub shape: Shape,
    /// See [`StudySetup::kernel`].
    #[cfg(target_os = "linux")]
    supervisor: std::cell::OnceCell<Rc<KernelSession>>,
}

impl Setup {
    /// Starts the processes and opens the lanes.
    pub fn start(
        args: &StudyArgs,
        suite: &Suite,
        cores: &Cores,
        control: &Control,
        lateness: &Lateness,
    ) -> Result<Self, Failure> {
        let source = args.source.clone().unwrap_or_else(|| suite.source.clone());
        let options = args.options(suite, cores, control)?;
        let opener = StudySetup {
            source: unlocked(&source),
            address: args.address,
            options,
            cores,
            destroy_data: args.destroy_data,
            lateness: lateness.clone(),
            shape: args.shape(),
            #[cfg(target_os = "linux")]
            supervisor: std::cell::OnceCell::new(),
        };
        let (chosen, mut skipped) = choose(args, suite)?;
        args.check_shape(&chosen)?;
        if chosen.iter().any(|one| one.url.is_none()) {
            opener.refuse_data(&opener.source)?;
        }
        #[cfg(target_os = "linux")]
        let others = {
            let templates: Vec<&LaneTemplate> = chosen.iter().map(|one| &one.template).collect();
            opener.choose_peers(args, suite, &templates)?
        };
        let mut lanes = Vec::new();
        opener.own(&chosen, &mut lanes, &mut skipped)?;
        #[cfg(target_os = "linux")]
        opener.peers(&others, &mut lanes, &mut skipped)?;
        opener.given(&chosen, &mut lanes)?;
        if lanes.is_empty() {
            let why = skipped
                .first()
                .map_or_else(|| "it has none".to_owned(), |skipped| skipped.why.clone());
            return Err(Failure::of(
                ErrorKind::Usage,
                format!("no lane of the suite {} can be measured here: {why}", suite.name),
            ));
        }
        let smallest = lanes.iter().map(|lane| lane.device.geometry().bytes()).min().unwrap_or(0);
        let most = if suite.fill { CEILING_BYTES_MAX } else { NULL_CEILING_BYTES };
        Ok(Self { lanes, skipped, ceiling: ceiling(smallest.min(most), cores)? })
    }

    /// Returns the lanes that a block measures.
    pub fn into_measured(self) -> Result<LaneSet, Failure> {
        let no_address = |_| Failure::of(ErrorKind::Io, "the ceiling's server has no address");
        let address = self.ceiling.url().parse().map_err(no_address)?;
        let server = CeilingServer {
            address,
            pid: Some(self.ceiling.pid()),
            process: Box::new(self.ceiling),
        };
        Ok(LaneSet { lanes: self.lanes, ceiling: Some(server), missing: self.skipped })
    }
}

impl StudyArgs {
    fn options(
        &self,
        suite: &Suite,
        cores: &Cores,
        control: &Control,
    ) -> Result<ConnectOptions, Failure> {
        let loops = u16::try_from(cores.loops()).unwrap_or(u16::MAX);
        let mut options = self.connect.options(suite.queues.unwrap_or(loops), control)?;
        options.queue_size = options.queue_size.max(suite.queue_size.unwrap_or(0));
        // Lanes reconnect, as for users, but do not wait for ever.
        options.paths.fast_io_fail_timeout.get_or_insert(OUTAGE);
        Ok(options)
    }
}

impl StudyArgs {
    /// The cause of distances.
    pub(super) fn shape(&self) -> Shape {
        self.shape.unwrap_or(Shape::Relay)
    }

    /// Refuses a cause that is not possible here, or that no lane needs. Nothing was started.
    pub(super) fn check_shape(&self, chosen: &[Chosen]) -> Result<(), Failure> {
        let Some(shape) = self.shape else { return Ok(()) };
        let refused = |why: String| Err(Failure::of(ErrorKind::Usage, why));
        if !chosen.iter().any(|one| one.url.is_none() && one.template.is_far()) {
            return refused(
                "--shape needs a lane with a distance (`round_trip_us`), as those of \
                 --suite distance"
                    .to_owned(),
            );
        }
        match shape.refusal() {
            Some(why) => refused(format!("--shape {} is not possible here: {why}", shape.name())),
            None => Ok(()),
        }
    }
}

/// A served device, and its local lane.
struct Served {
    base: Through,
    source: String,
    target: Option<Rc<Spawned>>,
}

impl StudySetup<'_> {
    /// The supervisor of all changes in the kernel: it unloads modules after the last of them.
    #[cfg(target_os = "linux")]
    pub(super) fn kernel(&self) -> std::io::Result<&Rc<KernelSession>> {
        if let Some(session) = self.supervisor.get() {
            return Ok(session);
        }
        let new = KernelSession::start()?;
        Ok(self.supervisor.get_or_init(|| new))
    }

    /// The lanes to our own targets: one process serves each device over all plain protocols. Local
    /// lanes come first.
    fn own(
        &self,
        chosen: &[Chosen],
        lanes: &mut Vec<StudyLane>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<(), Failure> {
        let own = || chosen.iter().filter(|one| one.url.is_none());
        let plain: Vec<&Chosen> = own().filter(|one| one.template.is_plain()).collect();
        let schemes: Vec<String> = plain.iter().map(|one| scheme(one.template.through)).collect();
        let local =
            own().filter(|one| matches!(one.template.through, Through::Local | Through::Flash));
        let names: Vec<Through> = local.map(|one| one.template.through).collect();
        let mut served = Vec::new();
        for (base, source) in self.devices(&names)? {
            if names.contains(&base) {
                lanes.push(self.local(base, &source)?);
            }
            let target = if schemes.is_empty() {
                None
            } else {
                Some(Rc::new(serve(&source, &schemes, self.address(), self.cores)?))
            };
            served.push(Served { base, source, target });
        }
        for one in &served {
            for chosen in &plain {
                let Some(target) = &one.target else { continue };
                let url = url_of(target, &chosen.template, &one.source)?;
                lanes.push(self.remote(
                    &chosen.template,
                    &self.options,
                    &url,
                    Some(target),
                    Some(one.base),
                )?);
            }
        }
        for one in
            own().filter(|one| one.template.through.is_protocol() && !one.template.is_plain())
        {
            match self.composed(&one.template) {
                Ok(lane) => lanes.push(lane),
                Err(failure) if one.asked => return Err(failure),
                Err(failure) => skipped.push(Skipped {
                    lane: one.template.name.clone(),
                    why: sentence(&failure.to_string()),
                    cell: None,
                }),
            }
        }
        Ok(())
    }

    /// The lanes to devices of the user's. Those that fio measures come last, as others may be to
    /// the same device.
    fn given(&self, chosen: &[Chosen], lanes: &mut Vec<StudyLane>) -> Result<(), Failure> {
        let given = || chosen.iter().filter_map(|one| Some((&one.template, one.url.as_deref()?)));
        let mut opened: Vec<(&str, StudyLane)> = Vec::new();
        let own = given()
            .filter(|(_, url)| fio::device(url).is_none())
            .map(|(template, url)| (template, url, false));
        let by_fio =
            given().filter_map(|(template, url)| Some((template, fio::device(url)?, true)));
        for (template, url, by_fio) in own.chain(by_fio) {
            let engine = if by_fio { Some(fio::engine(url)?) } else { None };
            let same = opened
                .iter()
                .find(|(known, lane)| *known == url && lane.generator.is_none())
                .map(|(_, lane)| lane);
            let lane = match (engine, same) {
                (Some(engine), same) => self.by_fio(template, url, engine, same)?,
                (None, _) => self.remote(template, &self.options, url, None, None)?,
            };
            self.refuse_data_on(&lane.device)?;
            opened.push((url, StudyLane { real: true, ..lane }));
        }
        lanes.extend(opened.into_iter().map(|(_, lane)| lane));
        Ok(())
    }

    /// A lane that fio measures, whose device is that of `same` if weft measures it, too.
    fn by_fio(
        &self,
        template: &LaneTemplate,
        url: &str,
        engine: FioAccess,
        same: Option<&StudyLane>,
    ) -> Result<StudyLane, Failure> {
        let lane = match same {
            // A file is locked by whoever opens it.
            Some(same) => StudyLane {
                name: template.name.clone(),
                title: template.title(),
                url: same.url.clone(),
                device: Arc::clone(&same.device),
                target_pids: Vec::new(),
                target_counters: None,
                home_counters: None,
                initiator_cpus: same.initiator_cpus.clone(),
                target_cpus: Vec::new(),
                base: None,
                real: true,
                generator: None,
                prepared_by: Some(same.name.clone()),
                peer: LanePeer::default(),
            },
            None => self.remote(template, &self.options, url, None, None)?,
        };
        let fio = Fio::new(engine, url, lane.device.geometry(), same.map(|same| same.name.clone()));
        Ok(StudyLane { generator: Some(Rc::new(fio)), ..lane })
    }

    /// Refuses a device on which something is recognised, unless it may be overwritten.
    pub(super) fn refuse_data(&self, source: &str) -> Result<(), Failure> {
        if self.destroy_data {
            Ok(())
        } else {
            self.refuse_data_on(&weft_endpoint::open(source, &self.options)?)
        }
    }

    /// The same of one that is open.
    fn refuse_data_on(&self, device: &Device) -> Result<(), Failure> {
        if self.destroy_data { Ok(()) } else { Ok(existing_data::refuse_data(device)?) }
    }

    /// The address at which targets of our own listen.
    pub(super) fn address(&self) -> IpAddr {
        self.address.unwrap_or(Ipv4Addr::LOCALHOST.into())
    }

    /// The devices to measure: the device, unless only the modelled one is requested, and the
    /// modelled one, if requested.
    fn devices(&self, names: &[Through]) -> Result<Vec<(Through, String)>, Failure> {
        let flash = names.contains(&Through::Flash);
        let mut devices = Vec::new();
        if names.contains(&Through::Local) || !flash {
            devices.push((Through::Local, self.source.clone()));
        }
        if flash {
            let bytes = weft_endpoint::open(&self.source, &self.options)?.geometry().bytes();
            devices.push((Through::Flash, format!("{FLASH},null:{bytes}")));
        }
        Ok(devices)
    }

    fn local(&self, name: Through, source: &str) -> Result<StudyLane, Failure> {
        let device = weft_endpoint::open(source, &self.options)?;
        Ok(StudyLane {
            name: name.name().into(),
            title: name.title().into(),
            url: device.url().to_owned(),
            device,
            target_pids: Vec::new(),
            target_counters: None,
            home_counters: None,
            initiator_cpus: self.cores.initiator.clone(),
            target_cpus: Vec::new(),
            base: None,
            real: is_real(source),
            generator: None,
            prepared_by: None,
            peer: LanePeer::default(),
        })
    }

    /// A network lane: to our own target, whose device is that of the lane `base`, or to a device
    /// of the user's.
    pub(super) fn remote(
        &self,
        template: &LaneTemplate,
        options: &ConnectOptions,
        url: &str,
        target: Option<&Rc<Spawned>>,
        base: Option<Through>,
    ) -> Result<StudyLane, Failure> {
        let (short, title) = (&template.name, template.title());
        let (name, title) = match (base, target) {
            (Some(Through::Flash), _) => {
                (format!("{short}-flash"), format!("{title} to the modelled flash device"))
            }
            (_, Some(_)) if template.title.is_none() => {
                (short.clone(), format!("{title} over the loopback"))
            }
            _ => (short.clone(), title),
        };
        let device = weft_endpoint::open(url, options)?;
        let is_own = target.is_some() && base == Some(Through::Local) && template.is_plain();
        let own = || Cell::new(template.through.title(), Some(Cell::OWN), Some(Cell::OWN));
        Ok(StudyLane {
            name,
            title,
            url: device.url().to_owned(),
            device,
            target_pids: target.map(|target| target.pid()).into_iter().collect(),
            target_counters: target
                .cloned()
                .map(|target| Box::new(move || target.counters()) as ReadCounters),
            home_counters: None,
            initiator_cpus: self.cores.initiator.clone(),
            target_cpus: if target.is_some() { self.cores.target.clone() } else { Vec::new() },
            base: base.map(|base| base.name().to_owned()),
            real: is_real(&self.source),
            generator: None,
            prepared_by: None,
            peer: LanePeer {
                setup: target.map(|target| target.command().to_owned()).into_iter().collect(),
                cell: is_own.then(own),
                process: target.cloned().map(|target| target as Rc<dyn ForeignTarget>),
                ..LanePeer::default()
            },
        })
    }
}

/// A failure as a sentence.
fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}
