//! The gateways' cluster: it keeps their record and beats, keeps clients out, and has one image,
//! whose writers hold its exclusive lock.
//!
//! The lock is that of an RBD image: a client that writes without it asks the client that has it,
//! which gives it away when nothing of its own is in flight. One that does not answer keeps it,
//! until it is kept out of the cluster. An image may be without: then every client writes at once.

use super::objects::{Client, ReservationObjects};
use crate::store::BlockStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_group::{Beat, GatewayName, GroupAnswer, GroupRecord, GroupRequest};
use weft_io::Time;

/// See the module.
pub struct Cluster {
    /// The blocks of the image.
    pub store: Arc<BlockStore>,
    /// Reservations that the gateways keep.
    pub objects: ReservationObjects,
    /// The life of the group, as its record says.
    pub life: u64,
    /// Who belongs to the group, as its record says.
    members: BTreeSet<Client>,
    /// Clients that have ended in order.
    closed: BTreeSet<Client>,
    /// Somebody belongs to the group no more who is not kept out, and has not ended.
    at_large: Option<Client>,
    /// The blocks of writes that wait in a queue of a client.
    waiting: BTreeMap<(Client, u64), Vec<u64>>,
    has_lock: bool,
    version: u64,
    record: Option<Vec<u8>>,
    beats: BTreeMap<GatewayName, Beat>,
    blocklist: BTreeSet<Client>,
    /// Clients that the cluster does not reach, and that do not reach it.
    cut: BTreeSet<Client>,
    /// Clients that do not answer: stopped, or dead.
    silent: BTreeSet<Client>,
    holder: Option<Client>,
    wanted_by: Option<Client>,
}

impl Cluster {
    /// The image has an exclusive lock or does not.
    pub fn new(store: Arc<BlockStore>, has_lock: bool) -> Self {
        Self {
            store,
            objects: ReservationObjects::default(),
            life: 0,
            members: BTreeSet::new(),
            closed: BTreeSet::new(),
            at_large: None,
            waiting: BTreeMap::new(),
            has_lock,
            version: 0,
            record: None,
            beats: BTreeMap::new(),
            blocklist: BTreeSet::new(),
            cut: BTreeSet::new(),
            silent: BTreeSet::new(),
            holder: None,
            wanted_by: None,
        }
    }

    /// The record as it is.
    pub fn record(&self) -> Option<&[u8]> {
        self.record.as_deref()
    }

    /// Returns whether a client may serve: nobody may take its place before it is kept out.
    pub fn is_member(&self, client: Client) -> bool {
        self.members.contains(&client)
    }

    /// A client whose place others may take, and that can still write.
    pub fn at_large(&self) -> Option<Client> {
        self.at_large
    }

    pub fn is_kept_out(&self, client: Client) -> bool {
        self.blocklist.contains(&client)
    }

    pub fn set_cut(&mut self, client: Client, is_cut: bool) {
        if is_cut {
            self.cut.insert(client)
        } else {
            self.cut.remove(&client)
        };
    }

    pub fn set_silent(&mut self, client: Client, is_silent: bool) {
        if is_silent {
            self.silent.insert(client)
        } else {
            self.silent.remove(&client)
        };
    }

    pub fn is_cut(&self, client: Client) -> bool {
        self.cut.contains(&client)
    }

    /// Executes what a gateway asks.
    pub fn execute(
        &mut self,
        (name, client): (&GatewayName, Client),
        asked: &GroupRequest,
    ) -> GroupAnswer {
        if self.is_kept_out(client) {
            return GroupAnswer::Blocklisted;
        }
        match asked {
            GroupRequest::Read => {
                GroupAnswer::Record(self.record.clone().map(|text| (self.version, text)))
            }
            GroupRequest::Write { version, text } if *version == self.version => {
                self.version += 1;
                if let Ok(record) = GroupRecord::parse(text) {
                    self.life = record.life;
                    let members =
                        record.members().map(|(_, member)| number(&member.client)).collect();
                    let gone: Vec<_> = self.members.difference(&members).copied().collect();
                    let is_over = |of: &Client| self.is_kept_out(*of) || self.closed.contains(of);
                    self.at_large =
                        self.at_large.or_else(|| gone.into_iter().find(|of| !is_over(of)));
                    self.members = members;
                }
                self.record = Some(text.clone());
                GroupAnswer::Written(self.version)
            }
            GroupRequest::Write { .. } => GroupAnswer::Conflict,
            GroupRequest::Beat(beat) => {
                self.beats.insert(name.clone(), *beat);
                GroupAnswer::Beats(self.version, self.beats.clone())
            }
            GroupRequest::Fence(client) => {
                let client = number(client);
                self.blocklist.insert(client);
                self.objects.forget(client);
                GroupAnswer::Fenced
            }
        }
    }

    /// Returns whether a client can read.
    pub fn may_read(&self, client: Client) -> bool {
        !self.is_kept_out(client) && !self.is_cut(client)
    }

    /// Returns whether a client can write; if not, it wants to.
    pub fn may_write(&mut self, client: Client, now: Time) -> bool {
        if !self.may_read(client) || !self.has_lock {
            return self.may_read(client);
        }
        let is_there =
            |cluster: &Self, of: Client| cluster.may_read(of) && !cluster.silent.contains(&of);
        if self.wanted_by.is_some_and(|of| !is_there(self, of)) {
            self.wanted_by = None;
        }
        match self.holder {
            Some(holder) if self.is_kept_out(holder) => {
                self.store.drop_writes_of(holder, now);
                self.holder = None;
            }
            // It is given to who asked for it, even if that client does not want it any more.
            Some(holder)
                if self.wanted_by.is_some()
                    && is_there(self, holder)
                    && !self.store.has_writes_of(holder, now) =>
            {
                self.holder = self.wanted_by.take();
            }
            _ => {}
        }
        match self.holder {
            None => self.holder = Some(client),
            Some(holder) if holder != client => _ = self.wanted_by.get_or_insert(client),
            Some(_) => {}
        }
        self.holder == Some(client) && self.wanted_by.is_none()
    }

    /// These writes wait in a client's queue.
    pub fn set_waiting(&mut self, (client, queue): (Client, u64), blocks: Vec<u64>) {
        if blocks.is_empty() {
            self.waiting.remove(&(client, queue));
        } else {
            self.waiting.insert((client, queue), blocks);
        }
    }

    /// A write to one of these blocks that waits in the queue of a client that is not kept out.
    pub fn waiting_write(&self, blocks: core::ops::Range<u64>) -> Option<u64> {
        let of_others = self.waiting.iter().filter(|((client, _), _)| !self.is_kept_out(*client));
        of_others.flat_map(|(_, waiting)| waiting).copied().find(|lba| blocks.contains(lba))
    }

    /// A client ends in order, when nothing of it is under way; whether it has ended.
    pub fn close(&mut self, client: Client, now: Time) -> bool {
        if self.store.has_writes_of(client, now) {
            return false;
        }
        if self.holder == Some(client) {
            self.holder = None;
        }
        self.objects.forget(client);
        self.closed.insert(client);
        true
    }
}

/// As the record has it.
fn number(client: &str) -> Client {
    client.parse().expect("the number of a client")
}
