//! Present problems of a server, by its report.

use weft_endpoint::report::{NamespaceReport, Report};

/// One sentence for each thing that keeps hosts from what is served; none: the server is healthy.
pub fn problems(report: &Report) -> Vec<String> {
    let silent = report.loops.iter().filter(|each| !each.answered);
    let silent = silent.map(|each| format!("event loop {} does not answer", each.number));
    let away = report.subsystems.iter().flat_map(|subsystem| {
        let away = subsystem.namespaces.iter().filter(|namespace| namespace.presence != "here");
        away.map(|namespace| {
            let (nsid, nqn) = (namespace.nsid, &subsystem.nqn);
            format!("the device of namespace {nsid} of {nqn} is {}", namespace.presence)
        })
    });
    let troubled = report.subsystems.iter().flat_map(|subsystem| {
        let troubled = move |of: &NamespaceReport| {
            let (nsid, nqn) = (of.nsid, &subsystem.nqn);
            of.trouble.as_ref().map(|why| format!("namespace {nsid} of {nqn}: {why}"))
        };
        subsystem.namespaces.iter().filter_map(troubled)
    });
    silent.chain(away).chain(troubled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_endpoint::report::{LoopReport, SubsystemReport};

    #[test]
    fn a_silent_loop_and_a_lost_device_are_told() {
        let mut report = Report {
            loops: vec![LoopReport { answered: true, ..LoopReport::default() }],
            subsystems: vec![SubsystemReport {
                nqn: "nqn.a".into(),
                namespaces: vec![NamespaceReport {
                    nsid: 3,
                    presence: "here".into(),
                    ..NamespaceReport::default()
                }],
                ..SubsystemReport::default()
            }],
            ..Report::default()
        };
        assert_eq!(problems(&report), [""; 0]);
        report.loops[0].answered = false;
        report.subsystems[0].namespaces[0].presence = "away".into();
        assert_eq!(
            problems(&report),
            ["event loop 0 does not answer", "the device of namespace 3 of nqn.a is away"]
        );
        report.subsystems[0].namespaces[0].trouble = Some("the file was cut".into());
        assert_eq!(problems(&report)[2], "namespace 3 of nqn.a: the file was cut");
    }
}
