//! Conditions once the faults are over: all gateways of a group report one state, and enforce it.

use super::Ended;
use super::link::StreamLost;
use super::model::{ModelAction, ModelState, Who};
use super::script::{Host, Script};
use core::time::Duration;

/// Pause before what has failed is done again.
const AGAIN: Duration = Duration::from_millis(300);

impl Script {
    /// Looks at all gateways, then clears everything.
    pub(super) async fn settle(mut self) {
        let gateways = self.environment.doors.len();
        let mut first = None;
        for gateway in 0..gateways {
            let shown = self.report_of(gateway).await;
            let first = &*first.get_or_insert_with(|| shown.clone());
            if *first != shown {
                self.journal.violation(format!(
                    "gateway {gateway} reports {shown:?}, and gateway 0 {first:?}"
                ));
            }
        }
        let Some((_, state)) = first else { return };
        for gateway in 0..gateways {
            for who in 0..self.ways.len() {
                while self.try_write((who, gateway), &state).await.is_err() {
                    self.pause().await;
                }
            }
        }
        while self.known.borrow().certain().is_none_or(|state| !state.is_empty()) {
            // Its failure is known.
            let _ = self.clear().await;
            self.pause().await;
        }
    }

    async fn pause(&self) {
        self.place.sleep_until(self.place.on.now() + AGAIN).await;
    }

    async fn report_of(&mut self, gateway: usize) -> (u32, ModelState) {
        loop {
            if let Ok(mut host) = self.open(0, gateway).await
                && let Ok(Some(shown)) = self.report(&mut host).await
            {
                return shown;
            }
            self.pause().await;
        }
    }

    /// A host writes: that is done if it may, and only then.
    async fn try_write(
        &mut self,
        (who, gateway): (Who, usize),
        state: &ModelState,
    ) -> Result<(), StreamLost> {
        let mut host: Host = self.open(who, gateway).await?;
        let (lba, content) = self.next_write(who);
        let ended = host.write(lba, &content).await?;
        self.note(format_args!("host {who} writes by gateway {gateway}: {ended:?}"));
        let may = state.allows(Some(who), true);
        let is_there = self.environment.store.peek(lba, self.place.on.now()) == content;
        let text = match ended {
            Ended::Done if may && is_there => return Ok(()),
            Ended::Conflict if !may && !is_there => return Ok(()),
            // The gateway serves nothing, as one that is not optimized.
            Ended::NotExecuted if !is_there => return Ok(()),
            Ended::Unknown => return Err(StreamLost),
            _ if is_there => "and is there",
            _ => "and is not there",
        };
        self.journal.violation(format!(
            "a write of host {who} by gateway {gateway} ends with {ended:?} {text}: {state:?}"
        ));
        Ok(())
    }

    async fn clear(&mut self) -> Result<(), StreamLost> {
        let mut host = self.open(0, 0).await?;
        self.ask(&mut host, ModelAction::Register).await?;
        self.ask(&mut host, ModelAction::Clear).await
    }
}
