//! The reservations of a group's namespaces: objects in the cluster, and how each gateway has
//! changes put in force at all of them.

use super::store::{GroupObjects, Word};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_ceph::ObjectError;
use weft_endpoint::reservations::SharedStore;
use weft_group::limits::RESERVATION_RECORD_BYTES_MAX;
use weft_group::{Announcement, AnnouncementStep, FORMAT, GatewayName, GroupRecord};

/// How long one message waits for answers. Who has not answered then is told again.
const ANSWER: Duration = Duration::from_secs(2);

/// The reservations of all namespaces of a group.
pub struct SharedReservations {
    store: Arc<GroupObjects>,
    /// It lasts for as long as this gateway belongs to the group.
    life: u64,
    /// The format of all that the group stores, as it was seen last. It only grows.
    format: AtomicU32,
}

fn error(e: &ObjectError) -> Error {
    Error::new(ErrorKind::Io, e.to_string())
}

impl SharedReservations {
    /// In this store, of a group to which this gateway belongs from now on. Waits for the cluster.
    pub fn new(store: Arc<GroupObjects>) -> Result<Self, Error> {
        let mut found = Self { store, life: 0, format: AtomicU32::new(1) };
        let record = found.record()?;
        (found.life, found.format) = (record.life, AtomicU32::new(record.format()));
        Ok(found)
    }

    fn record(&self) -> Result<GroupRecord, Error> {
        let text = self.store.record().map_err(|e| error(&e))?;
        GroupRecord::parse(&text).map_err(|e| Error::new(ErrorKind::Protocol, e.to_string()))
    }

    /// Tells the other gateways; who has acknowledged.
    fn ask(&self, word: &Word) -> Result<Vec<u64>, Error> {
        match self.store.ask(word, ANSWER) {
            Err(ObjectError::Blocklisted) => Err(error(&ObjectError::Blocklisted)),
            Err(e) => {
                tracing::debug!("the other gateways were not notified about reservations: {e}");
                Ok(Vec::new())
            }
            Ok(answers) => Ok(answers),
        }
    }

    fn object(&self, namespace: Uuid) -> String {
        self.store.object(&format!("reservations.{namespace}"))
    }
}

impl SharedStore for SharedReservations {
    fn life(&self) -> u64 {
        self.life
    }

    fn version(&self) -> Result<u32, Error> {
        if self.format.load(Relaxed) < FORMAT {
            self.format.store(self.record()?.format(), Relaxed);
        }
        Ok(self.format.load(Relaxed))
    }

    fn read(&self, namespace: Uuid) -> Result<Option<(u64, Vec<u8>)>, Error> {
        self.store
            .objects
            .read(&self.object(namespace), RESERVATION_RECORD_BYTES_MAX)
            .map_err(|e| error(&e))
    }

    fn replace(&self, namespace: Uuid, before: u64, object: &[u8]) -> Result<Option<u64>, Error> {
        self.store.objects.replace(&self.object(namespace), before, object).map_err(|e| error(&e))
    }

    fn tell(&self, namespace: Uuid) -> Result<(), Error> {
        let word = Word::Reservations { namespace, by: self.store.instance };
        let epoch = Instant::now();
        let mut announcement = Announcement::new(self.store.instance, epoch.elapsed());
        loop {
            match announcement.step() {
                AnnouncementStep::Record => announcement.record(epoch.elapsed(), &self.record()?),
                AnnouncementStep::Tell => announcement.answered(&self.ask(&word)?),
                AnnouncementStep::Pause(time) => {
                    std::thread::sleep(time);
                    announcement.paused();
                }
                AnnouncementStep::Done => return Ok(()),
                AnnouncementStep::Late => {
                    let names: Vec<&str> =
                        announcement.missing().map(GatewayName::as_str).collect();
                    let text = format!(
                        "the gateways {} have not put a reservation in force: look at their logs",
                        names.join(", ")
                    );
                    return Err(Error::new(ErrorKind::TimedOut, text));
                }
            }
        }
    }
}
