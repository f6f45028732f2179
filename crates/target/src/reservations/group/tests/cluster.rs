//! A cluster in memory, which fails when it is told to, and gateways over it.

use crate::reservations::*;
use std::collections::{HashMap, VecDeque};
use std::sync::MutexGuard;
use weft_base::lock::{Condition, Lock};
use weft_block::{Error, ErrorKind};

/// Behaviour of a store at the next calls that change something.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mishap {
    /// It fails, and nothing has happened.
    Fails,
    /// It fails, but was executed.
    AnswerLost,
    /// Another gateway changes the object first.
    Conflict,
}

/// A cluster in memory: objects, and the gateways that are notified.
#[derive(Default)]
pub(super) struct Cluster {
    pub inner: Lock<ClusterObjects>,
    pub changed: Condition,
}

#[derive(Default)]
pub(super) struct ClusterObjects {
    pub objects: HashMap<Uuid, (u64, Vec<u8>)>,
    pub gateways: Vec<ReservationTable>,
    /// These gateways do not receive notifications.
    pub deaf: Vec<usize>,
    /// These were kept out.
    pub fenced: Vec<usize>,
    pub mishaps: VecDeque<Mishap>,
    pub life: u64,
    pub reads_fail: bool,
    /// Some gateway knows version 1 only.
    pub has_old: bool,
    pub told: usize,
}

/// The cluster, as the store of one gateway.
pub(super) struct GatewayStore {
    cluster: Arc<Cluster>,
    me: usize,
}

fn failed() -> Error {
    Error::new(ErrorKind::Io, "the cluster does not answer")
}

impl Cluster {
    pub(super) fn lock(&self) -> MutexGuard<'_, ClusterObjects> {
        self.inner.lock()
    }

    pub(super) fn change(&self, how: impl FnOnce(&mut ClusterObjects)) {
        how(&mut self.lock());
        self.changed.notify_all();
    }

    pub(super) fn join(self: &Arc<Self>) -> ReservationTable {
        let me = self.lock().gateways.len();
        let table =
            ReservationTable::shared(Arc::new(GatewayStore { cluster: Arc::clone(self), me }));
        self.lock().gateways.push(table.clone());
        table
    }

    pub(super) fn tables<const N: usize>(self: &Arc<Self>) -> [ReservationTable; N] {
        [(); N].map(|()| self.join())
    }
}

impl SharedStore for GatewayStore {
    fn life(&self) -> u64 {
        self.cluster.lock().life
    }

    fn version(&self) -> Result<u32, Error> {
        Ok(if self.cluster.lock().has_old { 1 } else { 2 })
    }

    fn read(&self, namespace: Uuid) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let inner = self.cluster.lock();
        if inner.reads_fail { Err(failed()) } else { Ok(inner.objects.get(&namespace).cloned()) }
    }

    fn replace(&self, namespace: Uuid, before: u64, object: &[u8]) -> Result<Option<u64>, Error> {
        let mut inner = self.cluster.lock();
        let mishap = inner.mishaps.pop_front();
        let now = inner.objects.get(&namespace).map_or(0, |(generation, _)| *generation);
        if mishap == Some(Mishap::Conflict) || now != before {
            return Ok(None);
        }
        if mishap != Some(Mishap::Fails) {
            inner.objects.insert(namespace, (now + 1, object.to_vec()));
        }
        if mishap.is_some() { Err(failed()) } else { Ok(Some(now + 1)) }
    }

    fn tell(&self, namespace: Uuid) -> Result<(), Error> {
        let others: Vec<_> = (0..)
            .zip(self.cluster.lock().gateways.clone())
            .filter(|(n, _)| *n != self.me)
            .collect();
        let done = Arc::new(Lock::new(Vec::new()));
        let mut asked = Vec::new();
        self.cluster.change(|inner| inner.told += 1);
        loop {
            let deaf = self.cluster.lock().deaf.clone();
            for (n, table) in others.iter().filter(|(n, _)| !deaf.contains(n)) {
                if !asked.contains(n) {
                    asked.push(*n);
                    let (done, cluster, n) = (Arc::clone(&done), Arc::clone(&self.cluster), *n);
                    let heard = move || cluster.change(|_| done.lock().push(n));
                    table.changed_elsewhere(namespace, Box::new(heard));
                }
            }
            let mut inner = self.cluster.lock();
            let is_over = |inner: &ClusterObjects| {
                others.iter().all(|(n, _)| inner.fenced.contains(n) || done.lock().contains(n))
            };
            while inner.deaf == deaf && !is_over(&inner) {
                inner = self.cluster.changed.wait(inner);
            }
            if is_over(&inner) {
                return Ok(());
            }
        }
    }
}
