//! Requests of administrators to the service manager: install, remove, start, stop and show
//! services of weft. Services of others are left alone.

use super::settings::{ServiceFacts, ServiceSettings, ServiceStart, event_source, is_ours};
use super::words::ServiceAttempt;
use crate::limits::{
    SERVICE_FAILURES_FORGOTTEN_S, SERVICE_RESTARTS_MS, SERVICE_SHUTDOWN_S, SERVICE_SILENCE_S,
};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};
use weft_block::{Error, ErrorKind, waiting};
use weft_io::event_log;
use windows_service::service::{
    Service, ServiceAccess, ServiceAction, ServiceActionType, ServiceConfig, ServiceErrorControl,
    ServiceExitCode, ServiceFailureActions, ServiceFailureResetPeriod, ServiceInfo,
    ServiceStartType, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};

/// How often a service is looked at that starts or ends.
const LOOK: Duration = Duration::from_millis(100);

impl ServiceAttempt<'_> {
    fn of<T>(self, outcome: windows_service::Result<T>) -> Result<T, Error> {
        outcome.map_err(|e| match e {
            windows_service::Error::Winapi(e) => self.failed(&e),
            e => {
                let Self { doing, name } = self;
                Error::new(ErrorKind::Usage, format!("cannot {doing} the service {name}: {e}"))
            }
        })
    }
}

/// Checks that this system has services of Windows.
///
/// # Errors
/// None, here.
pub fn supported() -> Result<(), Error> {
    Ok(())
}

/// Installs a service. What could not be set up, without which the service is still of use, is
/// returned as sentences.
///
/// # Errors
/// It is there already, or this user is not an administrator.
pub fn install(settings: &ServiceSettings) -> Result<Vec<String>, Error> {
    let name = settings.name.as_str();
    let attempt = ServiceAttempt { doing: "install", name };
    let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
    let manager = attempt.of(ServiceManager::local_computer(None::<&str>, access))?;
    let info = ServiceInfo {
        name: name.into(),
        display_name: settings.display_name.clone().into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: match settings.start {
            ServiceStart::Auto | ServiceStart::DelayedAuto => ServiceStartType::AutoStart,
            ServiceStart::Demand => ServiceStartType::OnDemand,
            ServiceStart::Disabled => ServiceStartType::Disabled,
        },
        error_control: ServiceErrorControl::Normal,
        executable_path: settings.program.clone(),
        launch_arguments: settings.words.clone(),
        dependencies: Vec::new(),
        account_name: (settings.account != "LocalSystem").then(|| settings.account.clone().into()),
        account_password: None,
    };
    // Restarting is a right of its own, which goes with the actions after a failure.
    let access = ServiceAccess::CHANGE_CONFIG | ServiceAccess::START;
    let service = attempt.of(manager.create_service(&info, access))?;
    Ok(set_up(&service, settings))
}

/// Sets what is not given with the creation of a service; what could not be set.
fn set_up(service: &Service, settings: &ServiceSettings) -> Vec<String> {
    let mut left = Vec::new();
    let mut note = |what: &str, outcome: windows_service::Result<()>| {
        if let Err(e) = outcome {
            let text = match e {
                windows_service::Error::Winapi(e) => e.to_string(),
                e => e.to_string(),
            };
            left.push(format!("the service manager does not take {what}: {text}"));
        }
    };
    note("the description", service.set_description(&settings.description));
    if settings.start == ServiceStart::DelayedAuto {
        note("the delayed start", service.set_delayed_auto_start(true));
    }
    note("the restart after a failure", service.update_failure_actions(restarts()));
    note(
        "the restart after an end with an error",
        service.set_failure_actions_on_non_crash_failures(true),
    );
    note(
        "the time to end before the system shuts down",
        service.set_preshutdown_timeout(Duration::from_secs(SERVICE_SHUTDOWN_S)),
    );
    if let Err(e) = event_log::register(&event_source(&settings.name)) {
        left.push(format!("the event log does not take the source of messages: {e}"));
    }
    left
}

/// What the service manager does after a failure.
fn restarts() -> ServiceFailureActions {
    let action = |delay| ServiceAction {
        action_type: ServiceActionType::Restart,
        delay: Duration::from_millis(delay),
    };
    let forgotten = Duration::from_secs(SERVICE_FAILURES_FORGOTTEN_S);
    ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(forgotten),
        reboot_msg: None,
        command: None,
        actions: Some(SERVICE_RESTARTS_MS.map(action).into()),
    }
}

/// Removes a service; one that runs is stopped first.
///
/// # Errors
/// It is not there or not weft's, or this user is not an administrator.
pub fn remove(name: &str) -> Result<(), Error> {
    let attempt = ServiceAttempt { doing: "remove", name };
    let access = ServiceAccess::DELETE | ServiceAccess::STOP;
    let service = open(attempt, access)?;
    end(attempt, &service)?;
    attempt.of(service.delete())?;
    let failed = |e| Error::io(format!("cannot remove the source of {name}'s events: {e}"), e);
    event_log::unregister(&event_source(name)).map_err(failed)
}

/// Starts a service and waits until it serves; whether it did not run before.
///
/// # Errors
/// It is not there, ended at once, or does not start in time.
pub fn start(name: &str) -> Result<bool, Error> {
    let attempt = ServiceAttempt { doing: "start", name };
    let service = open(attempt, ServiceAccess::START)?;
    let is_new = match service.start::<&OsStr>(&[]) {
        Err(windows_service::Error::Winapi(e)) if e.raw_os_error() == Some(RUNS_ALREADY) => false,
        outcome => attempt.of(outcome).map(|()| true)?,
    };
    let status = settled(attempt, &service)?;
    match status.current_state {
        ServiceState::Running => Ok(is_new),
        _ => {
            let source = event_source(name);
            let text = format!(
                "the service {name} ended with status {} as it was started; the event log says why: Get-WinEvent -ProviderName \"{source}\" -MaxEvents 5 | Format-List",
                status_of(status.exit_code)
            );
            Err(Error::new(ErrorKind::Io, text))
        }
    }
}

/// Stops a service and waits until it has ended; whether it ran before.
///
/// # Errors
/// It is not there, or does not end in time.
pub fn stop(name: &str) -> Result<bool, Error> {
    let attempt = ServiceAttempt { doing: "stop", name };
    end(attempt, &open(attempt, ServiceAccess::STOP)?)
}

/// The service manager's facts about a service.
///
/// # Errors
/// It is not there, or not weft's.
pub fn show(name: &str) -> Result<ServiceFacts, Error> {
    let attempt = ServiceAttempt { doing: "show", name };
    let service = open(attempt, ServiceAccess::empty())?;
    let status = attempt.of(service.query_status())?;
    let config = attempt.of(service.query_config())?;
    let has_ended = status.current_state == ServiceState::Stopped
        && status.exit_code != ServiceExitCode::Win32(NEVER_STARTED);
    Ok(ServiceFacts {
        name: name.to_owned(),
        display_name: text(&config.display_name),
        state: match status.current_state {
            ServiceState::Stopped => "stopped",
            ServiceState::StartPending => "starting",
            ServiceState::StopPending => "ending",
            ServiceState::Running => "running",
            _ => "paused",
        },
        pid: status.process_id.filter(|pid| *pid != 0),
        exit_status: has_ended.then(|| status_of(status.exit_code)),
        start: start_of(&config),
        account: config.account_name.as_deref().map(text),
        command: config.executable_path.display().to_string(),
        restarts_ms: service.get_failure_actions().ok().and_then(delays),
    })
}

/// What the manager says of a service that is to start and did.
const RUNS_ALREADY: i32 = 1056;

/// What the manager says of services that were not started since the system was.
const NEVER_STARTED: u32 = 1077;

fn start_of(config: &ServiceConfig) -> Option<ServiceStart> {
    match config.start_type {
        ServiceStartType::AutoStart => Some(ServiceStart::Auto),
        ServiceStartType::OnDemand => Some(ServiceStart::Demand),
        ServiceStartType::Disabled => Some(ServiceStart::Disabled),
        _ => None,
    }
}

fn delays(of: ServiceFailureActions) -> Option<Vec<u64>> {
    let restarts = of.actions?.into_iter();
    let restarts = restarts.filter(|action| action.action_type == ServiceActionType::Restart);
    Some(restarts.map(|action| action.delay.as_millis() as u64).collect())
}

fn text(of: impl AsRef<OsStr>) -> String {
    of.as_ref().to_string_lossy().into_owned()
}

fn status_of(code: ServiceExitCode) -> u32 {
    match code {
        ServiceExitCode::Win32(status) | ServiceExitCode::ServiceSpecific(status) => status,
    }
}

/// Opens a service of weft's.
fn open(attempt: ServiceAttempt<'_>, access: ServiceAccess) -> Result<Service, Error> {
    let name = attempt.name;
    let manager =
        attempt.of(ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT))?;
    let access = access | ServiceAccess::QUERY_STATUS | ServiceAccess::QUERY_CONFIG;
    let service = attempt.of(manager.open_service(OsString::from(name), access))?;
    let config = attempt.of(service.query_config())?;
    if is_ours(&text(&config.executable_path)) {
        return Ok(service);
    }
    let text = format!(
        "the service {name} is not one of weft's: give the name of one that `weft service install` made with --name"
    );
    Err(Error::new(ErrorKind::Usage, text))
}

/// Stops a service if it runs, and waits until it has ended; whether it ran.
fn end(attempt: ServiceAttempt<'_>, service: &Service) -> Result<bool, Error> {
    if attempt.of(service.query_status())?.current_state == ServiceState::Stopped {
        return Ok(false);
    }
    // One that starts or ends takes no requests.
    if settled(attempt, service)?.current_state == ServiceState::Stopped {
        return Ok(true);
    }
    attempt.of(service.stop())?;
    settled(attempt, service)?;
    Ok(true)
}

/// Waits until a service neither starts nor ends, as long as it says that it gets on.
fn settled(attempt: ServiceAttempt<'_>, service: &Service) -> Result<ServiceStatus, Error> {
    let silence = Duration::from_secs(SERVICE_SILENCE_S);
    let (mut said, mut last) = (None, Instant::now());
    let _waiting = waiting::begin(|| format!("the service {} to start or end", attempt.name));
    loop {
        let status = attempt.of(service.query_status())?;
        if !matches!(status.current_state, ServiceState::StartPending | ServiceState::StopPending) {
            return Ok(status);
        }
        let now = (status.current_state, status.checkpoint);
        if said != Some(now) {
            (said, last) = (Some(now), Instant::now());
        }
        if last.elapsed() > silence {
            let text = format!(
                "the service {} does not get on: it said nothing for {SERVICE_SILENCE_S} s; the event log may say why",
                attempt.name
            );
            return Err(Error::new(ErrorKind::TimedOut, text));
        }
        std::thread::sleep(LOOK);
    }
}
