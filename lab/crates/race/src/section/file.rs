//! A file through `O_DIRECT`: weft on the file itself and weft's target, compared with fio on it.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask::sh::{self, Missing};

use super::{
    super::{
        contestant::Target,
        process,
        sample::{Cost, Sample},
        setting::Setting,
        statistics::Spread,
        table::{Section, Table, micros, rate},
    },
    reads,
};

/// fio's engines that are tried: the better one counts, by its median.
const ENGINES: [&str; 2] = ["io_uring", "libaio"];

/// Measures in turn.
pub fn run(setting: &Setting) -> Result<Section> {
    if !sh::have("fio") {
        return Err(Missing("there is no fio".into()).into());
    }
    let directory = sh::target_dir().join("xtask");
    fs::create_dir_all(&directory)?;
    let path = directory.join("race.img");
    fs::write(&path, vec![0x5a; setting.memory_bytes as usize])
        .with_context(|| format!("cannot write {}", path.display()))?;
    let path = path.to_str().context("the target directory's name is not UTF-8")?.to_owned();
    let measured = measure(setting, &path);
    fs::remove_file(&path)?;
    measured
}

fn measure(setting: &Setting, path: &str) -> Result<Section> {
    let source = format!("file:{path},block=4096,direct=on");
    let mut target = Target::start(setting, &source)?;
    let job = |cpu: usize| reads(setting, 32, &[&format!("--cpus_allowed={cpu}")]);
    let (mut alone, mut served) = (Vec::new(), Vec::new());
    let mut of_engines = ENGINES.map(|_| Vec::new());
    for _ in 0..setting.rounds {
        for (engine, samples) in ENGINES.iter().zip(&mut of_engines) {
            // An engine may be switched off.
            samples.extend(fio(setting, path, engine).ok());
        }
        // The target has it locked.
        let mut bench =
            setting.weft(&["bench", &format!("{source},lock=off"), "--output-format=json"]);
        let report = process::output(bench.args(job(setting.target_cpu)))?;
        alone.push(Sample::of_fio(&serde_json::from_str(&report)?)?);
        served.push(target.sample(setting, &job(setting.initiator_cpu))?);
    }
    let direct =
        better(of_engines, setting.rounds as usize).context("fio has no engine that works here")?;
    let ratio = |of: &[Sample], what: &dyn Fn(&Sample, &Sample) -> f64| {
        Spread::of(of.iter().zip(&direct).map(|(s, d)| what(s, d))).map_or(0.0, |s| s.median)
    };
    let cpu = |cost: Option<Cost>| cost.map_or(0.0, |cost| cost.cpu_us());
    let [rates, alone_rates] =
        [&served, &alone].map(|of| ratio(of, &|weft, direct| weft.iops / direct.iops));
    let costs = ratio(&served, &|served, direct| cpu(served.target) / cpu(direct.initiator));
    let median = |samples: &[Sample], of: &dyn Fn(&Sample) -> f64| {
        Spread::of(samples.iter().map(of)).map_or(0.0, |s| s.median)
    };
    let columns =
        ["4 KiB random reads, depth 32", "operations per second", "processor time each, µs"];
    let mut table = Table::new(
        "A file through O_DIRECT",
        &format!("Medians of {} rounds.", setting.rounds),
        &columns,
    );
    let fio_cpu = micros(median(&direct, &|s| cpu(s.initiator)));
    table.rows.push(vec!["fio on the file".into(), rate(median(&direct, &|s| s.iops)), fio_cpu]);
    let alone_cpu = micros(median(&alone, &|s| cpu(s.initiator)));
    table.rows.push(vec![
        "weft bench on the file".into(),
        rate(median(&alone, &|s| s.iops)),
        alone_cpu,
    ]);
    let target_cpu = micros(median(&served, &|s| cpu(s.target)));
    table.rows.push(vec!["weft's target".into(), rate(median(&served, &|s| s.iops)), target_cpu]);
    table.notes.push(format!("On the file: {alone_rates:.2} of fio's rate. Through the target: {rates:.2} of it, at {costs:.2} times its processor time. (The aims: 0.95 of the rate, at most twice the time.)"));
    let list = |samples: &[Sample]| samples.iter().map(Sample::json).collect::<Vec<_>>();
    let data = json!({ "fio": list(&direct), "alone": list(&alone), "weft": list(&served), "alone_ratio": alone_rates, "iops_ratio": rates, "cpu_ratio": costs });
    Ok(Section { name: "file", tables: vec![table], data })
}

/// The engine with the higher median, of those that worked in each round: ratios are taken within
/// rounds.
fn better(of_engines: [Vec<Sample>; 2], rounds: usize) -> Option<Vec<Sample>> {
    let median = |samples: &[Sample]| Spread::of(samples.iter().map(|s| s.iops)).map(|s| s.median);
    let whole = of_engines.into_iter().filter(|samples| samples.len() == rounds);
    let working = whole.filter_map(|samples| Some((median(&samples)?, samples)));
    working.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, samples)| samples)
}

fn fio(setting: &Setting, path: &str, engine: &str) -> Result<Sample> {
    let job = [
        "--name=race".to_owned(),
        format!("--filename={path}"),
        format!("--ioengine={engine}"),
        "--direct=1".into(),
        "--rw=randread".into(),
        "--bs=4k".into(),
        "--iodepth=32".into(),
        "--norandommap".into(),
        "--time_based".into(),
        format!("--runtime={}ms", setting.runtime.as_millis()),
        format!("--ramp_time={}ms", setting.ramp.as_millis()),
        "--output-format=json".into(),
    ];
    let words: Vec<&str> = job.iter().map(String::as_str).collect();
    let text = process::output(&mut Setting::pinned(setting.target_cpu, "fio", &words))?;
    let report: Value =
        serde_json::from_str(text.get(text.find('{').unwrap_or(0)..).unwrap_or_default())?;
    Sample::of_fio(&report)
}
