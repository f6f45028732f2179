//! The lanes of a study: those of its suite, or those that the user names and gives.

use super::fio;
use super::options::{LaneOption, StudyArgs};
use super::serving::scheme;
use crate::process::exit::Failure;
use weft_bench::results::Skipped;
use weft_bench::suite::{LaneTemplate, Suite, Through};
use weft_block::ErrorKind;

/// A lane to measure.
pub struct Chosen {
    pub template: LaneTemplate,
    /// A device of the user's.
    pub url: Option<String>,
    /// Named by the user, who wants to know why it is not possible.
    pub asked: bool,
}

/// The lanes, and those of the suite that are not possible here.
pub fn choose(args: &StudyArgs, suite: &Suite) -> Result<(Vec<Chosen>, Vec<Skipped>), Failure> {
    if let Some(url) = &args.target {
        let through = of_url(url)?;
        let url = Some(url.clone());
        return Ok((
            vec![Chosen { template: LaneTemplate::plain(through), url, asked: true }],
            Vec::new(),
        ));
    }
    let asked = !args.lanes.is_empty();
    let templates = if asked { named(args, suite)? } else { usual(args, suite) };
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for template in templates {
        let url = args
            .given
            .iter()
            .find(|given| given.name == template.name)
            .map(|given| given.url.clone());
        let why = if url.is_some() { None } else { impossible(args, &template) };
        match why {
            Some(why) if asked => return Err(Failure::of(ErrorKind::Usage, why)),
            Some(why) => skipped.push(Skipped {
                lane: template.name.clone(),
                why: format!("{why}."),
                cell: None,
            }),
            None => chosen.push(Chosen { template, url, asked }),
        }
    }
    for given in &args.given {
        if !chosen.iter().any(|chosen| chosen.template.name == given.name) {
            chosen.push(Chosen {
                template: of_given(given),
                url: Some(given.url.clone()),
                asked: true,
            });
        }
    }
    Ok((chosen, skipped))
}

/// A lane that the suite does not have.
fn of_given(given: &LaneOption) -> LaneTemplate {
    LaneTemplate {
        name: given.name.clone(),
        title: Some(title(&given.url)),
        ..LaneTemplate::plain(Through::Given)
    }
}

/// Those of the suite. A device of the user's is not compared with a modelled one.
fn usual(args: &StudyArgs, suite: &Suite) -> Vec<LaneTemplate> {
    let lanes =
        suite.lanes.iter().filter(|lane| args.source.is_none() || lane.through != Through::Flash);
    lanes.cloned().collect()
}

/// Those that the user names: lanes of the suite, or protocols.
fn named(args: &StudyArgs, suite: &Suite) -> Result<Vec<LaneTemplate>, Failure> {
    let mut lanes: Vec<LaneTemplate> = Vec::new();
    for name in &args.lanes {
        let of_suite = suite.lanes.iter().find(|lane| lane.name == *name).cloned();
        let protocol = || {
            Through::ALL
                .into_iter()
                .find(|through| through.name() == name && *through != Through::Given)
        };
        let given = || args.given.iter().find(|given| given.name == *name).map(of_given);
        let lane = of_suite
            .or_else(|| protocol().map(LaneTemplate::plain))
            .or_else(given)
            .ok_or_else(|| {
                let known = suite.lanes.iter().map(|lane| lane.name.as_str());
                let protocols = Through::ALL
                    .iter()
                    .filter(|through| **through != Through::Given)
                    .map(|through| through.name());
                let mut names: Vec<&str> = known.collect();
                names.extend(
                    protocols
                        .filter(|protocol| suite.lanes.iter().all(|lane| lane.name != *protocol)),
                );
                Failure::of(
                    ErrorKind::Usage,
                    format!(
                        "there is no lane \"{name}\": use {}, or --lane {name}=URL",
                        names.join(", ")
                    ),
                )
            })?;
        if !lanes.contains(&lane) {
            lanes.push(lane);
        }
    }
    // Local devices come first, whatever the order of the names.
    lanes.sort_by_key(|lane| {
        Through::ALL
            .iter()
            .position(|through| *through == lane.through)
            .filter(|at| *at < 2)
            .unwrap_or(2)
    });
    Ok(lanes)
}

/// Why a lane is not possible here, without a full stop.
fn impossible(args: &StudyArgs, template: &LaneTemplate) -> Option<String> {
    let rdma = template.through == Through::NvmeRdma || template.behind == Some(Through::NvmeRdma);
    if rdma && args.address.is_none() {
        let name = &template.name;
        return Some(format!(
            "the lane {name} needs --address: the IP address of a network interface with an RDMA device (`rdma link` lists them)"
        ));
    }
    template.needs.as_ref().map(|needs| format!("it needs {needs}"))
}

/// The title of a device of the user's, by its URL.
fn title(url: &str) -> String {
    if let Some(device) = fio::device(url) {
        return format!("{}, measured by fio", title(device));
    }
    of_url(url).map_or_else(
        |_| "A device of the user’s".to_owned(),
        |through| format!("{}, a target of the user’s", through.title()),
    )
}

/// The protocol of the URL of an existing target.
pub fn of_url(url: &str) -> Result<Through, Failure> {
    Through::ALL.into_iter().find(|through| through.is_protocol() && url.starts_with(&scheme(*through))).ok_or_else(|| {
        let shown = weft_endpoint::url::without_secret(url);
        let text = format!(
            "--target \"{shown}\" is not a target; use nvme+tcp://HOST/NQN, nvme+rdma://HOST/NQN, iscsi://HOST/IQN/LUN or nbd://HOST/NAME"
        );
        Failure::of(ErrorKind::Usage, text)
    })
}
