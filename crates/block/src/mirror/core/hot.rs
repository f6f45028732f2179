//! Work of the home for the marks of regions: it marks regions that loops ask for, and takes the
//! marks of evicted regions back from the loops before the engine flushes the legs.

use super::{Core, Mode};
use crate::limits::MIRROR_COLD_S;
use crate::mirror::direct::Direct;
use core::time::Duration;
use weft_io::Time;

impl Core {
    /// Marks and evicts what is due. Returns whether there was anything.
    pub(super) fn turn_hot(&mut self) -> bool {
        let Some(direct) = self.loops.direct.clone() else { return false };
        let Some(engine) = self.engine.as_mut().filter(|_| self.mode == Mode::Running) else {
            return false;
        };
        let mut some = false;
        if let Some(wanted) = direct.wanted() {
            engine.want_all(&wanted);
            some = true;
        }
        if engine.is_crowded() {
            direct.touched.move_to(engine.touched());
            some |= engine.evict();
        }
        some | self.unmark(&direct)
    }

    /// Takes the marks of an eviction back. Writes that have seen them end first, and the engine
    /// judges those that failed.
    fn unmark(&mut self, direct: &Direct) -> bool {
        let Some(name) = self.engine.as_ref().and_then(|engine| engine.evicting()) else {
            return false;
        };
        let eviction = (self.run, name);
        if self.loops.turned != Some(eviction) {
            self.publish_marks(direct);
            if !direct.turn() {
                return false;
            }
            self.loops.turned = Some(eviction);
        }
        if !direct.is_past() || !self.loops.undecided.is_empty() {
            return false;
        }
        self.engine.iter_mut().for_each(|engine| engine.unmarked());
        true
    }

    /// Shows loops which regions may be written to, if that has changed.
    pub(super) fn publish_marks(&mut self, direct: &Direct) {
        let Some(engine) = &self.engine else { return };
        let version = (self.run, engine.marks_version());
        if self.loops.marks_version != Some(version) {
            direct.mark(&engine.marked());
            self.loops.marks_version = Some(version);
        }
    }

    /// Looks for regions that were not written to for long, from time to time.
    pub(super) fn tidy(&mut self, now: Time) {
        if self.tidy_at > now {
            return;
        }
        self.tidy_at = now + Duration::from_secs(MIRROR_COLD_S);
        if let Some(engine) = &mut self.engine {
            if let Some(direct) = &self.loops.direct {
                direct.touched.move_to(engine.touched());
            }
            engine.tidy();
            self.on.wake(self.id);
        }
    }
}
