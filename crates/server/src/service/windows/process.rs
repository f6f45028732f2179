//! This process as a service: the service manager starts it, gets its state, and asks it to end.
//!
//! While the service starts or ends, a thread reports each second that it still does: so opening
//! sources and completing commands may take their time, and the manager gives up only when the
//! process hangs.

use super::message::ServiceMessage;
use super::settings::event_source;
use super::words::ServiceAttempt;
use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_base::lock::{Condition, Lock};
use weft_block::{Error, ErrorKind};
use weft_io::event_log::{EventLog, Gravity};
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{
    ServiceControlHandlerResult, ServiceStatusHandle, register,
};
use windows_service::{define_windows_service, service_dispatcher};

/// How often the manager is told that the service still starts or ends.
const PULSE: Duration = Duration::from_secs(1);

/// How long the manager waits for the next of these words.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to do when the manager asks for something.
type Order = Box<dyn Fn() + Send>;

/// The service that this process is. A process is started as one service and ends with it.
static SERVICE: OnceLock<Service> = OnceLock::new();

struct Service {
    name: String,
    /// None where the event log does not answer: the service is of use without.
    log: Option<EventLog>,
    /// The service manager has called. Before, errors are for whoever typed the command.
    is_called: AtomicBool,
    inside: Lock<Inside>,
    changed: Condition,
}

/// Where the service is between its start and its end.
struct Inside {
    work: Option<Box<dyn FnOnce() -> u8 + Send>>,
    handle: Option<ServiceStatusHandle>,
    state: ServiceState,
    checkpoint: u32,
    /// Its exit status, when it has ended.
    status: u8,
    end: Option<Order>,
    reload: Option<Order>,
    /// The manager asked for the end before anybody listened for that.
    end_is_due: bool,
}

define_windows_service!(begin, served);

/// Is the service until it has ended; its exit status. `work` serves, and returns that.
///
/// # Errors
/// [`ErrorKind::Usage`] if the service manager has not started this process.
pub fn run(name: &str, work: impl FnOnce() -> u8 + Send + 'static) -> Result<u8, Error> {
    let inside = Inside {
        work: Some(Box::new(work)),
        handle: None,
        state: ServiceState::StartPending,
        checkpoint: 0,
        status: 0,
        end: None,
        reload: None,
        end_is_due: false,
    };
    let service = SERVICE.get_or_init(|| Service {
        name: name.to_owned(),
        log: EventLog::open(&event_source(name)).ok(),
        is_called: AtomicBool::new(false),
        inside: Lock::new(inside),
        changed: Condition::new(),
    });
    match service_dispatcher::start(name, begin) {
        Ok(()) => Ok(service.inside.lock().status),
        Err(windows_service::Error::Winapi(e)) => {
            Err(ServiceAttempt { doing: "run", name }.failed(&e))
        }
        Err(e) => Err(Error::new(ErrorKind::Io, format!("cannot run the service {name}: {e}"))),
    }
}

/// What the service manager calls, on a thread of its own.
fn served(_: Vec<OsString>) {
    let Some(service) = SERVICE.get() else { return };
    service.is_called.store(true, Ordering::Release);
    match register(&service.name, control) {
        Ok(handle) => service.inside.lock().handle = Some(handle),
        Err(e) => {
            write(ServiceMessage::Failed, &format!("the service manager takes no answers: {e}"));
            service.inside.lock().status = 1;
            return;
        }
    }
    service.tell();
    let work = service.inside.lock().work.take();
    let pulse = std::thread::Builder::new().name("weft-service".into()).spawn(|| service.pulse());
    if let Err(e) = pulse {
        write(ServiceMessage::Warning, &format!("the service manager may give up early: {e}"));
    }
    let status = work.map_or(0, |work| work());
    if status == 0 {
        write(ServiceMessage::Ended, "the service has ended as it was asked to");
    }
    service.inside.lock().status = status;
    service.goes_to(ServiceState::Stopped);
}

/// What the service manager asks for. It has no state of its own, and must not get any: after a
/// request to end, `windows-service` drops what it was registered with, and the manager can still
/// ask how things are.
fn control(asked: ServiceControl) -> ServiceControlHandlerResult {
    let Some(service) = SERVICE.get() else { return ServiceControlHandlerResult::NotImplemented };
    match asked {
        ServiceControl::Interrogate => {}
        ServiceControl::Stop | ServiceControl::Preshutdown | ServiceControl::Shutdown => {
            service.end();
        }
        ServiceControl::ParamChange => {
            if let Some(reload) = &service.inside.lock().reload {
                reload();
            }
        }
        _ => return ServiceControlHandlerResult::NotImplemented,
    }
    ServiceControlHandlerResult::NoError
}

impl Service {
    /// Ends the service in order.
    fn end(&self) {
        self.goes_to(ServiceState::StopPending);
        let mut inside = self.inside.lock();
        match &inside.end {
            Some(end) => end(),
            None => inside.end_is_due = true,
        }
    }

    /// Goes on to a later state, and tells the manager. What has ended does not start again.
    fn goes_to(&self, state: ServiceState) {
        let mut inside = self.inside.lock();
        let is_over = inside.state == ServiceState::Stopped
            || inside.state == ServiceState::StopPending && state != ServiceState::Stopped;
        if is_over {
            return;
        }
        inside.state = state;
        inside.checkpoint = 0;
        drop(inside);
        self.changed.notify_all();
        self.tell();
    }

    /// Tells the manager the state.
    fn tell(&self) {
        let mut inside = self.inside.lock();
        let is_pending =
            matches!(inside.state, ServiceState::StartPending | ServiceState::StopPending);
        if is_pending {
            inside.checkpoint += 1;
        }
        let Some(handle) = inside.handle else { return };
        let told = ServiceStatus {
            service_type: ServiceType::OWN_PROCESS,
            current_state: inside.state,
            controls_accepted: inside.accepted(),
            exit_code: match inside.status {
                0 => ServiceExitCode::NO_ERROR,
                status => ServiceExitCode::ServiceSpecific(status.into()),
            },
            checkpoint: inside.checkpoint,
            wait_hint: if is_pending { PATIENCE } else { Duration::ZERO },
            process_id: None,
        };
        if let Err(e) = handle.set_service_status(told) {
            tracing::warn!("cannot tell the service manager how things are: {e}");
        }
    }

    /// Tells the manager again and again that the service starts or ends, until it has ended.
    fn pulse(&self) {
        loop {
            let inside = self.inside.lock();
            match inside.state {
                ServiceState::Stopped => return,
                ServiceState::Running => {
                    drop(self.changed.wait(inside));
                }
                _ => {
                    let (inside, is_over) = self.changed.wait_for(inside, PULSE);
                    drop(inside);
                    if is_over {
                        self.tell();
                    }
                }
            }
        }
    }
}

impl Inside {
    /// What the manager may ask for now. Before the system shuts down, it waits for those that it
    /// asks with PRESHUTDOWN, while the network and the disks are still there; SHUTDOWN would leave
    /// five seconds.
    fn accepted(&self) -> ServiceControlAccept {
        let reload = match self.reload {
            Some(_) => ServiceControlAccept::PARAM_CHANGE,
            None => ServiceControlAccept::empty(),
        };
        match self.state {
            ServiceState::Running => {
                ServiceControlAccept::STOP | ServiceControlAccept::PRESHUTDOWN | reload
            }
            _ => ServiceControlAccept::empty(),
        }
    }
}

/// This process as a service, once the service manager has called it.
fn called() -> Option<&'static Service> {
    SERVICE.get().filter(|service| service.is_called.load(Ordering::Acquire))
}

/// Returns whether this process is a service.
pub fn is_service() -> bool {
    called().is_some()
}

/// Writes into the event log, if this process is a service.
pub fn write(message: ServiceMessage, text: &str) {
    let gravity = match message {
        ServiceMessage::Failed | ServiceMessage::Error => Gravity::Error,
        ServiceMessage::Warning => Gravity::Warning,
        ServiceMessage::Started | ServiceMessage::Ended | ServiceMessage::Information => {
            Gravity::Information
        }
    };
    if let Some(log) = called().and_then(|service| service.log.as_ref()) {
        // There is no other place to say that it is full.
        let _ = log.write(gravity, message as u16, text);
    }
}

/// The service serves.
pub fn ready() {
    if let Some(service) = called() {
        service.goes_to(ServiceState::Running);
        write(ServiceMessage::Started, "the service serves");
    }
}

/// The service ends, whoever asked for that.
pub fn stopping() {
    if let Some(service) = called() {
        service.goes_to(ServiceState::StopPending);
    }
}

/// Has the service manager's requests to end, and to read the configuration again, call these.
pub fn on_controls(end: impl Fn() + Send + 'static, reload: Option<impl Fn() + Send + 'static>) {
    let Some(service) = called() else { return };
    let mut inside = service.inside.lock();
    if inside.end_is_due {
        end();
    }
    inside.end = Some(Box::new(end));
    inside.reload = reload.map(|reload| Box::new(reload) as Order);
}
