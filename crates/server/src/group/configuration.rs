//! The configuration of a group, in the cluster (`docs/ceph.md`): any gateway changes it by
//! compare-and-set, and all follow.

use super::store::{GroupObjects, Word};
use crate::config::group::{self, GroupConfig};
use crate::limits::GROUP_CONFIGURATION_BYTES_MAX;
use crate::management::protocol::{FaultCode, RequestFault};
use crate::served::ServedState;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_ceph::ObjectError;

/// The configuration of a group.
pub struct GroupConfiguration {
    store: Arc<GroupObjects>,
    known: Lock<ServedText>,
    looks: Sender<()>,
    looking: Lock<Option<Receiver<()>>>,
}

/// The configuration that is served here.
#[derive(Clone, Debug, Default)]
pub struct ServedText {
    /// Counts the changes; 0: there was none yet.
    pub generation: u64,
    /// The configuration.
    pub text: String,
    /// Why this gateway does not serve what the cluster has.
    pub behind: Option<String>,
}

/// A change by another gateway.
pub struct NewConfiguration {
    generation: u64,
    text: String,
    /// The configuration to serve.
    pub config: GroupConfig,
}

fn failed(e: &ObjectError) -> RequestFault {
    RequestFault::new(
        FaultCode::Io,
        format!("whether the group's configuration was changed is not known: {e}"),
    )
}

fn conflict() -> RequestFault {
    RequestFault::new(
        FaultCode::Conflict,
        "another gateway has changed the group's configuration at the same moment: try again",
    )
}

fn behind(why: &str) -> RequestFault {
    let text = format!(
        "this gateway could not follow the group's last change, so it makes none: {why}; ask another gateway, or apply a whole configuration"
    );
    RequestFault::new(FaultCode::Refused, text)
}

impl GroupConfiguration {
    /// That of a group with these objects.
    pub(super) fn new(store: Arc<GroupObjects>) -> Arc<Self> {
        let (looks, looking) = mpsc::channel();
        Arc::new(Self { store, known: Lock::default(), looks, looking: Lock::new(Some(looking)) })
    }

    /// Reads what is to be served from the start.
    pub(super) fn read(&self) -> Result<GroupConfig, Error> {
        let (generation, text) = self.fetch().map_err(|e| Error::new(ErrorKind::Io, e))?;
        if generation == 0 {
            tracing::warn!("the group has no configuration yet: weft apply gives it one");
        }
        let config = group::read(&text, "the group's configuration")?;
        *self.known.lock() = ServedText { generation, text, behind: None };
        Ok(config)
    }

    fn fetch(&self) -> Result<(u64, String), String> {
        let found = self
            .store
            .configuration()
            .map_err(|e| format!("the group's configuration cannot be read: {e}"))?;
        let (generation, bytes) = found.unwrap_or_default();
        let text = String::from_utf8(bytes)
            .map_err(|_| "the group's configuration is damaged: it is not UTF-8".to_owned())?;
        Ok((generation, text))
    }

    /// The requests to look at the configuration soon ([`Self::look`]), for the thread that follows
    /// it. Ends with this.
    pub fn looks(&self) -> Option<Receiver<()>> {
        self.looking.lock().take()
    }

    /// Asks for a look at the configuration soon.
    pub fn look(&self) {
        // Nobody follows before the server serves.
        let _ = self.looks.send(());
    }

    /// The configuration that is served here.
    pub fn known(&self) -> ServedText {
        self.known.lock().clone()
    }

    /// The cluster's configuration, if it differs from the one that is served here.
    ///
    /// # Errors
    /// Why that cannot be served.
    pub fn news(&self) -> Result<Option<NewConfiguration>, String> {
        let known = self.known();
        let generation = self
            .store
            .configuration_generation()
            .map_err(|e| format!("the group's configuration cannot be read: {e}"))?;
        if generation == known.generation && known.behind.is_none() {
            return Ok(None);
        }
        if generation < known.generation {
            return Err(format!(
                "the configuration in the cluster is older ({generation}) than what is served ({}): it was removed or restored; start this gateway again",
                known.generation
            ));
        }
        let (generation, text) = self.fetch()?;
        let config = group::read(&text, "the group's configuration").map_err(|e| e.to_string())?;
        Ok(Some(NewConfiguration { generation, text, config }))
    }

    /// Returns whether that is newer than the configuration that is served.
    pub fn is_news(&self, news: &NewConfiguration) -> bool {
        let known = self.known.lock();
        news.generation > known.generation
            || (news.generation == known.generation && known.behind.is_some())
    }

    /// Notes that this is served, unless something newer is.
    pub fn adopt(&self, news: &NewConfiguration) {
        if self.is_news(news) {
            let (generation, text) = (news.generation, news.text.clone());
            *self.known.lock() = ServedText { generation, text, behind: None };
        }
    }

    /// Refuses to say that nothing differs where others may serve something else.
    pub fn confirm(&self) -> Result<(), RequestFault> {
        let known = self.known();
        match known.behind {
            Some(why) => Err(behind(&why)),
            None if self.store.configuration_generation().map_err(|e| failed(&e))?
                != known.generation =>
            {
                Err(conflict())
            }
            None => Ok(()),
        }
    }

    /// Makes a change for all gateways, before it is carried out here. `text`: as the administrator
    /// wrote it.
    /// Notes that this is served, unless something newer is.
    /// # Errors
    /// [`FaultCode::Conflict`]: another gateway has made one. Otherwise what the cluster said; the
    /// change may have been made then.
    pub fn commit(&self, wanted: &ServedState, text: Option<&str>) -> Result<(), RequestFault> {
        let mut known = self.known();
        if let Some(why) = &known.behind {
            if text.is_none() {
                return Err(behind(why));
            }
            // A whole configuration does not depend on what is served here.
            known.generation = self.store.configuration_generation().map_err(|e| failed(&e))?;
        }
        let text = match text {
            Some(text) => text.to_owned(),
            None => group::text(wanted, &known.text)
                .map_err(|why| RequestFault::new(FaultCode::Invalid, why))?,
        };
        if text.len() > GROUP_CONFIGURATION_BYTES_MAX {
            let why = format!(
                "the group's configuration would have {} bytes, and {GROUP_CONFIGURATION_BYTES_MAX} are the most",
                text.len()
            );
            return Err(RequestFault::new(FaultCode::NoResources, why));
        }
        match self.store.configure(known.generation, text.as_bytes()) {
            Ok(Some(generation)) => {
                *self.known.lock() = ServedText { generation, text, behind: None }
            }
            Ok(None) => return Err(conflict()),
            Err(e) => return Err(failed(&e)),
        }
        self.store.tell(Word::Configuration);
        self.look();
        Ok(())
    }

    /// Notes that the committed configuration cannot be served here. Returns whether the reason is
    /// new.
    pub fn fell_behind(&self, why: &str) -> bool {
        let before = self.known.lock().behind.replace(why.to_owned());
        before.as_deref() != Some(why)
    }
}
