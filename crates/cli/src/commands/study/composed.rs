//! Lanes with targets of their own: a device of its own, a mirror, several paths, or a gateway.

use super::serving::{is_real, scheme, serve, unlocked, url_of};
use super::setup::StudySetup;
use crate::process::exit::Failure;
use std::rc::Rc;
use weft_bench::study::{LanePeer, ReadCounters, StudyLane};
use weft_bench::suite::{LaneTemplate, Policy, Through};
use weft_block::ErrorKind;
use weft_endpoint::paths::IoPolicy;

impl StudySetup<'_> {
    /// A lane to a device of its own.
    fn other_device(&self, template: &LaneTemplate, source: &str) -> Result<StudyLane, Failure> {
        let source = unlocked(source);
        self.refuse_data(&source)?;
        let target =
            Rc::new(serve(&source, &[scheme(template.through)], self.address(), self.cores)?);
        let url = url_of(&target, template, &source)?;
        let lane = self.remote(template, &self.options, &url, Some(&target), None)?;
        // No lane reaches the same device without a network.
        Ok(StudyLane { real: is_real(&source), base: Some(lane.name.clone()), ..lane })
    }

    /// A lane with targets of its own: a mirror, several paths, or a gateway.
    pub(super) fn composed(&self, template: &LaneTemplate) -> Result<StudyLane, Failure> {
        if let Some(source) = &template.source {
            return self.other_device(template, source);
        }
        if is_real(&self.source) {
            let text = "it starts targets with devices of their own, which takes a RAM disk or a null device as the source of the study";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        if template.is_far() {
            return self.far(template);
        }
        if template.targets > 1 {
            return self.mirror(template);
        }
        if let Some(behind) = template.behind {
            return self.gateway(template, behind);
        }
        self.several_paths(template)
    }

    /// A mirror of new devices behind targets of their own, whose processor time counts together.
    fn mirror(&self, template: &LaneTemplate) -> Result<StudyLane, Failure> {
        let mut targets = Vec::new();
        for _ in 0..template.targets {
            targets.push(Rc::new(serve(
                &self.source,
                &[scheme(template.through)],
                self.address(),
                self.cores,
            )?));
        }
        let urls = targets
            .iter()
            .map(|target| url_of(target, template, &self.source))
            .collect::<Result<Vec<_>, _>>()?;
        let url = format!("mirror:{}", urls.join(","));
        crate::commands::manage::mirror::label_new(&urls, &self.options)?;
        let title = format!("{}, mirror over {} targets", template.title(), template.targets);
        let lane = self.remote(template, &self.options, &url, None, Some(Through::Local))?;
        let target_pids = targets.iter().map(|target| target.pid()).collect();
        let setup = targets.iter().map(|target| target.command().to_owned()).collect();
        // The targets live as long as somebody can ask them.
        let counters: ReadCounters = Box::new(move || {
            targets.iter().map(|target| target.counters()).try_fold(Default::default(), add)
        });
        let control = self.options.control.clone();
        Ok(StudyLane {
            title,
            target_pids,
            target_counters: Some(counters),
            home_counters: Some(Box::new(move || control.counters())),
            target_cpus: self.cores.target.clone(),
            real: false,
            peer: LanePeer { setup, ..LanePeer::default() },
            ..lane
        })
    }

    /// A target whose device is that of another target.
    fn gateway(&self, template: &LaneTemplate, behind: Through) -> Result<StudyLane, Failure> {
        let far = serve(&self.source, &[scheme(behind)], self.address(), self.cores)?;
        let inner = url_of(&far, &LaneTemplate::plain(behind), &self.source)?;
        let near = Rc::new(serve(&inner, &[scheme(template.through)], self.address(), self.cores)?);
        let url = url_of(&near, template, &inner)?;
        let lane = self.remote(template, &self.options, &url, Some(&near), Some(Through::Local))?;
        let setup = vec![far.command().to_owned(), near.command().to_owned()];
        // The far target ends after the near one, which is the one whose processor time counts.
        let ends = (near, far);
        let counters: ReadCounters = Box::new(move || {
            let (near, far) = &ends;
            far.counters().and(near.counters())
        });
        let peer = LanePeer { setup, ..LanePeer::default() };
        Ok(StudyLane { target_counters: Some(counters), peer, ..lane })
    }

    /// Several addresses of one target.
    fn several_paths(&self, template: &LaneTemplate) -> Result<StudyLane, Failure> {
        let schemes = vec![scheme(template.through); template.paths as usize];
        let target = Rc::new(serve(&self.source, &schemes, self.address(), self.cores)?);
        let [url, further @ ..] = target.urls() else {
            return Err(Failure::of(ErrorKind::Io, "the target does not report where it listens"));
        };
        let mut options = self.options.clone();
        options.paths.further = further.to_vec();
        options.paths.io_policy = match template.policy {
            Policy::Numa => IoPolicy::Numa,
            Policy::RoundRobin => IoPolicy::RoundRobin,
            Policy::QueueDepth => IoPolicy::QueueDepth,
            Policy::Latency => IoPolicy::Latency,
        };
        self.remote(template, &options, url, Some(&target), Some(Through::Local))
    }
}

fn add(
    sum: weft_io::counters::Snapshot,
    one: Option<weft_io::counters::Snapshot>,
) -> Option<weft_io::counters::Snapshot> {
    Some(sum.plus(&one?))
}
