//! The objects of a group in the cluster.
//!
//! | object | content |
//! |---|---|
//! | `weft.GROUP.record` | [`weft_group::GroupRecord`], by compare-and-set |
//! | `weft.GROUP.gateways` | an attribute `beat.NAME` for each gateway's sign of life; gateways watch it, and tell each other there what has changed |
//! | `weft.GROUP.configuration` | what the group serves, by compare-and-set |
//! | `weft.GROUP.reservations.UUID` | reservations of a namespace, by compare-and-set |

use super::objects::{ObjectMessage, ObjectStore, ObjectWatch};
use super::threads;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_ceph::ObjectError;
use weft_group::limits::RECORD_BYTES_MAX;
use weft_group::{Beat, GatewayName, GroupAnswer, GroupRequest};

/// Notifications between gateways: the object that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// The record.
    Record,
    /// The configuration.
    Configuration,
    /// The reservations of a namespace. Who puts them in force answers with its instance.
    Reservations {
        /// The namespace.
        namespace: Uuid,
        /// The process that says so, and knows it.
        by: u64,
    },
}

impl Word {
    /// The notification in a message; `None`: this program does not know it, or messages may have
    /// been missed.
    pub fn parse(message: &[u8]) -> Option<Self> {
        serde_json::from_slice(message).ok()
    }

    fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// How long one who tells waits for those that are told. They read what has changed in any case,
/// with their next beat at the latest.
const TELLING: Duration = Duration::from_secs(2);

/// The group's objects.
pub struct GroupObjects {
    /// Those of the pool.
    pub objects: Arc<dyn ObjectStore>,
    gateway: GatewayName,
    /// A number that no other process has.
    pub instance: u64,
    prefix: String,
    /// The version of the record since which the cluster's map is known here.
    caught_up: AtomicU64,
    record: String,
    gateways: String,
    configuration: String,
}

impl GroupObjects {
    /// Those of this group, as this gateway uses them.
    pub fn new(objects: Arc<dyn ObjectStore>, group: &GatewayName, gateway: &GatewayName) -> Self {
        let (prefix, instance) = (format!("weft.{group}"), weft_io::random::number());
        let object = |what: &str| format!("{prefix}.{what}");
        let (record, gateways, configuration) =
            (object("record"), object("gateways"), object("configuration"));
        let (gateway, caught_up) = (gateway.clone(), AtomicU64::new(0));
        Self { objects, gateway, instance, prefix, caught_up, record, gateways, configuration }
    }

    /// By what the cluster keeps this process out.
    pub fn client(&self) -> Result<String, Error> {
        self.objects.client().map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
    }

    /// The group's configuration, with its generation. Waits for the cluster, as all that follows.
    pub fn configuration(&self) -> Result<Option<(u64, Vec<u8>)>, ObjectError> {
        self.objects.read(&self.configuration, crate::limits::GROUP_CONFIGURATION_BYTES_MAX)
    }

    /// The generation of what the group serves; 0: there is nothing yet.
    pub fn configuration_generation(&self) -> Result<u64, ObjectError> {
        self.objects.generation(&self.configuration)
    }

    /// Replaces what the group serves, if it has this generation; the new one.
    pub fn configure(&self, before: u64, text: &[u8]) -> Result<Option<u64>, ObjectError> {
        self.objects.replace(&self.configuration, before, text)
    }

    /// Tells the other gateways, without waiting.
    pub fn tell(self: &Arc<Self>, word: Word) {
        let this = Arc::clone(self);
        let tell = move || {
            // Whoever does not hear it looks by itself.
            if let Err(e) = this.objects.notify(&this.gateways, &word.text(), TELLING) {
                tracing::debug!("the other gateways were not notified about the new {word:?}: {e}");
            }
        };
        if let Err(e) = threads::start("tell", tell) {
            tracing::warn!("the other gateways were not notified about a change at once: {e}");
        }
    }

    /// An object of the group.
    pub fn object(&self, what: &str) -> String {
        format!("{}.{what}", self.prefix)
    }

    /// The text of the record.
    pub fn record(&self) -> Result<Vec<u8>, ObjectError> {
        let found = self.objects.read(&self.record, RECORD_BYTES_MAX)?;
        found.map(|(_, text)| text).ok_or(ObjectError::NotFound)
    }

    /// Tells the other gateways, and gives the processes that have answered within `limit`.
    pub fn ask(&self, word: &Word, limit: Duration) -> Result<Vec<u64>, ObjectError> {
        let answers = self.objects.notify(&self.gateways, &word.text(), limit)?;
        Ok(answers.iter().filter_map(|answer| serde_json::from_slice(answer).ok()).collect())
    }

    /// Has `heard` called with what others tell.
    pub fn watch(
        &self,
        heard: impl Fn(ObjectMessage) + Send + Sync + 'static,
    ) -> Result<Box<dyn ObjectWatch>, ObjectError> {
        self.objects.watch(&self.gateways, Box::new(heard))
    }

    /// Does what the gateway asks for.
    pub fn answer(&self, request: &GroupRequest) -> Result<GroupAnswer, ObjectError> {
        Ok(match request {
            GroupRequest::Read => {
                let record = self.objects.read(&self.record, RECORD_BYTES_MAX)?;
                let version = record.as_ref().map_or(0, |(version, _)| *version);
                if self.caught_up.load(Relaxed) != version {
                    // What this process does from now on comes behind the fences of which the
                    // record knows.
                    self.objects.catch_up()?;
                    self.caught_up.store(version, Relaxed);
                }
                GroupAnswer::Record(record)
            }
            GroupRequest::Write { version, text } => self
                .objects
                .replace(&self.record, *version, text)?
                .map_or(GroupAnswer::Conflict, GroupAnswer::Written),
            GroupRequest::Beat(beat) => {
                let text = serde_json::to_vec(beat).unwrap_or_default();
                self.objects.set_attribute(
                    &self.gateways,
                    &format!("beat.{}", self.gateway),
                    &text,
                )?;
                GroupAnswer::Beats(self.objects.generation(&self.record)?, self.beats()?)
            }
            GroupRequest::Fence(client) => {
                self.objects.fence(client)?;
                GroupAnswer::Fenced
            }
        })
    }

    fn beats(&self) -> Result<BTreeMap<GatewayName, Beat>, ObjectError> {
        let beat = |(name, value): (String, Vec<u8>)| {
            let name = GatewayName::new(name.strip_prefix("beat.")?).ok()?;
            Some((name, serde_json::from_slice(&value).ok()?))
        };
        Ok(self.objects.attributes(&self.gateways)?.into_iter().filter_map(beat).collect())
    }
}
