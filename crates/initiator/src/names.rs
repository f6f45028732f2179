//! Looks up the addresses of host names without blocking a loop.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_connection::url::HostPort;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Time};

/// The way to look up host names.
#[derive(Clone, Debug, Default)]
pub enum Names {
    /// With the system's resolver, on a thread per query, because it blocks for an unbounded time.
    #[default]
    System,
    /// In a table; other names do not exist.
    Table(NameTable),
}

/// Host names and their addresses. Copies share one table, which may change while it is in use.
#[derive(Clone, Debug, Default)]
pub struct NameTable(Arc<Lock<BTreeMap<String, Vec<IpAddr>>>>);

impl NameTable {
    /// Gives a host these addresses from now on; without any, it does not exist.
    pub fn set(&self, host: &str, addresses: Vec<IpAddr>) {
        self.0.lock().insert(host.to_owned(), addresses);
    }

    fn find(&self, host: &HostPort) -> Addresses {
        let table = self.0.lock();
        let found = table.get(host.host()).filter(|addresses| !addresses.is_empty());
        let with_port = |addresses: &Vec<IpAddr>| {
            addresses.iter().map(|&ip| SocketAddr::new(ip, host.port())).collect()
        };
        found.map(with_port).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("cannot find the host \"{}\"", host.host()))
        })
    }
}

impl<const N: usize> From<[(String, Vec<IpAddr>); N]> for NameTable {
    fn from(hosts: [(String, Vec<IpAddr>); N]) -> Self {
        Self(Arc::new(Lock::new(hosts.into())))
    }
}

/// The result of a lookup.
pub(crate) type Addresses = Result<Vec<SocketAddr>, Error>;

impl Names {
    /// Looks up a host; `then` receives the result by `deadline`, on this loop, possibly before
    /// this returns.
    pub(crate) fn look_up(
        &self,
        on: &Handle,
        host: &HostPort,
        deadline: Time,
        then: impl FnOnce(&Handle, Addresses) + 'static,
    ) {
        if let Ok(address) = host.host().parse() {
            return then(on, Ok(vec![SocketAddr::new(address, host.port())]));
        }
        match self {
            Self::Table(table) => then(on, table.find(host)),
            Self::System => ask_system(on, host.clone(), deadline, Box::new(then)),
        }
    }
}

type Then = Box<dyn FnOnce(&Handle, Addresses)>;

fn ask_system(on: &Handle, host: HostPort, deadline: Time, then: Then) {
    let answer = Arc::<Lock<Option<Addresses>>>::default();
    let (give, remote) = (Arc::clone(&answer), on.remote());
    let name = host.host().to_owned();
    let lookup = on.spawn(|id| Lookup {
        id,
        name,
        answer,
        deadline,
        timer: TimerSlot::default(),
        then: Some(then),
    });
    let keep = move |addresses| {
        *give.lock() = Some(addresses);
        remote.wake(lookup);
    };
    let failed = keep.clone();
    let started =
        std::thread::Builder::new().name("weft-names".into()).spawn(move || keep(host.resolve()));
    if let Err(e) = started {
        failed(Err(Error::io(format!("cannot start a thread to look up a host name: {e}"), e)));
    }
}

/// Waits for the system's answer.
struct Lookup {
    id: DriverId,
    name: String,
    answer: Arc<Lock<Option<Addresses>>>,
    deadline: Time,
    timer: TimerSlot,
    then: Option<Then>,
}

impl Driver for Lookup {
    fn work(&mut self, on: &Handle) -> Activity {
        let answer = self.answer.lock().take();
        let late = || {
            let text = format!(
                "the system could not look up the host \"{}\" in time; check its name servers, or use an address",
                self.name
            );
            (on.now() >= self.deadline).then(|| Err(Error::new(ErrorKind::TimedOut, text)))
        };
        let Some(answer) = answer.or_else(late) else {
            self.timer.arm(on, self.id, self.deadline);
            return Activity::Idle;
        };
        on.remove(self.id);
        if let Some(then) = self.then.take() {
            then(on, answer);
        }
        Activity::Busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;
    use weft_io::{Loop, LoopConfig};

    fn look_up(names: &Names, host: &str) -> Addresses {
        let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
        let found = Rc::<RefCell<Option<Addresses>>>::default();
        let give = Rc::clone(&found);
        let host = HostPort::new(host, 7).unwrap();
        let on = event_loop.handle().clone();
        names.look_up(&on, &host, on.clock() + Duration::from_secs(60), move |_, addresses| {
            *give.borrow_mut() = Some(addresses)
        });
        while found.borrow().is_none() {
            let _ = event_loop.turn(true).unwrap();
        }
        found.take().unwrap()
    }

    #[test]
    fn addresses_need_no_names() {
        let nobody = Names::Table(NameTable::default());
        assert_eq!(look_up(&nobody, "::1").unwrap(), ["[::1]:7".parse().unwrap()]);
        assert_eq!(look_up(&nobody, "host").unwrap_err().kind(), ErrorKind::NotFound);
        let one = Names::Table([("host".to_owned(), vec!["10.0.0.1".parse().unwrap()])].into());
        assert_eq!(look_up(&one, "host").unwrap(), ["10.0.0.1:7".parse().unwrap()]);
    }

    #[test]
    fn the_system_knows_this_host() {
        let found = look_up(&Names::System, "localhost").unwrap();
        assert!(
            found.iter().all(|address| address.ip().is_loopback() && address.port() == 7),
            "{found:?}"
        );
    }
}
