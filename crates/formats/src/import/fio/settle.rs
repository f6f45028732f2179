//! From fio's options to those of `weft bench`: what is honoured, refused and left out.

use super::super::{ImportError, ImportedJob, OptionSupport};
use super::engines::FioEngine;
use super::number::plain;
use super::options::FioOption;
use weft_bench::limits::JOBS_MAX;
use weft_block::units::parse_size;

/// Notation of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As in fio: `4kB` is 4096, and `4KiB` is 4000.
    Fio,
    /// As everywhere in weft.
    Weft,
}

/// Options that are honoured, but that `weft bench` does not have: other options stand for them.
pub const TRANSLATED: [&str; 20] = [
    "ioengine",
    "directory",
    "filename",
    "stonewall",
    "wait_for",
    "new_group",
    "uri",
    "pool",
    "rbdname",
    "clientname",
    "clustername",
    "random_generator",
    "allrandrepeat",
    "cpumask",
    "cpus_allowed_policy",
    "verify_interval",
    "fsync_on_close",
    "writefua",
    "io_submit_mode",
    "kb_base",
];

/// Makes a job of options that were written for fio: `at` names the place of the job in errors.
///
/// What `weft bench` has no option for is refused, unless it changes neither what is written nor
/// what is measured. An option that fio does not have is refused if the job writes.
///
/// # Errors
/// A refusal, or a value that is not valid.
pub fn settle(at: &str, job: &mut ImportedJob, numbers: Numbers) -> Result<(), ImportError> {
    let wrong = |problem: String| ImportError::wrong(at, problem);
    let engine = engine(job).map_err(wrong)?;
    let changes = changes(job);
    let is_1000 = match job.take("kb_base").as_deref() {
        None | Some("1024") => false,
        Some("1000") => true,
        Some(base) => return Err(wrong(format!("kb_base={base}: use 1000 or 1024"))),
    };
    for (name, value) in core::mem::take(&mut job.options) {
        let Some(option) = FioOption::named(&name) else {
            let text = format!("{name}={value}: fio 3.33 has no option of this name");
            match changes {
                true => return Err(wrong(format!("{text}, and this job writes; omit it"))),
                false => job.leave(text),
            }
            continue;
        };
        let value = match numbers {
            Numbers::Fio => plain(&value, option.kind, is_1000),
            Numbers::Weft => Ok(value),
        };
        let value = value.map_err(|problem| wrong(format!("{name}: {problem}")))?;
        match option.answer {
            _ if option.is_harmless(&value) => {}
            OptionSupport::Honoured => job.set(option.name(), value),
            OptionSupport::LeftOut => job.leave(format!("{name}={value} ({})", option.note)),
            OptionSupport::Refused => {
                let problem = format!("{name}={value} is not supported: {}", option.note);
                return Err(wrong(problem));
            }
        }
    }
    translate(job).map_err(wrong)?;
    devices(engine, job).map_err(wrong)
}

/// Returns whether the pattern of a job writes or trims.
fn changes(job: &ImportedJob) -> bool {
    let pattern = job.get("rw").unwrap_or("read");
    !matches!(pattern.split(':').next(), Some("read" | "randread"))
}

fn engine(job: &ImportedJob) -> Result<FioEngine, String> {
    let name = job.get("ioengine").unwrap_or("libaio");
    match FioEngine::named(name) {
        FioEngine::Refused(why) => Err(format!("ioengine={name} is not supported: {why}")),
        engine => Ok(engine),
    }
}

/// Replaces options by those that `weft bench` has.
fn translate(job: &mut ImportedJob) -> Result<(), String> {
    for (name, stronger) in [("bs", "bssplit"), ("bsrange", "bssplit"), ("bs", "bsrange")] {
        if job.get(stronger).is_some() {
            job.take(name);
        }
    }
    match job.take("random_generator").as_deref() {
        // It visits each block once, and so need not remember them.
        Some("lfsr") => _ = job.take("norandommap"),
        None | Some("tausworthe" | "tausworthe64") => {}
        Some(other) => {
            return Err(format!("random_generator={other}: use tausworthe, tausworthe64 or lfsr"));
        }
    }
    if job.take("allrandrepeat").is_some_and(|value| value != "0") {
        job.set("randrepeat", "1");
    }
    if let Some(mask) = job.take("cpumask") {
        job.set("cpus_allowed", cores(&mask)?);
    }
    choice(job, "cpus_allowed_policy", &["shared", "split"])?;
    choice(job, "io_submit_mode", &["inline", "offload"])?;
    job.take("verify_interval");
    job.take("new_group");
    if job.take("fsync_on_close").is_some_and(|value| value != "0") {
        job.set("end_fsync", "1");
    }
    if job.take("writefua").is_some_and(|value| value != "0") {
        job.set("sync", "dsync");
    }
    let last = |job: &ImportedJob| {
        let is_one = |(name, _): &&(String, String)| name == "direct" || name == "buffered";
        job.options.iter().rfind(is_one).cloned()
    };
    if let Some((name, value)) = last(job) {
        job.take("direct");
        job.take("buffered");
        job.set(&name, value);
    }
    Ok(())
}

/// Takes an option whose values all mean the same here.
fn choice(job: &mut ImportedJob, name: &str, values: &[&str]) -> Result<(), String> {
    match job.take(name) {
        Some(value) if !values.contains(&value.as_str()) => {
            Err(format!("{name}={value}: use {}", values.join(" or ")))
        }
        _ => Ok(()),
    }
}

/// The cores of a bit mask.
fn cores(mask: &str) -> Result<String, String> {
    let mask: u64 = mask.parse().map_err(|_| format!("cpumask={mask} is not a number"))?;
    let cores = (0..u64::BITS).filter(|core| mask >> core & 1 == 1);
    Ok(cores.map(|core| core.to_string()).collect::<Vec<_>>().join(","))
}

/// Sets depth and device as the engine has them.
fn devices(engine: FioEngine, job: &mut ImportedJob) -> Result<(), String> {
    let name = job.take("ioengine").unwrap_or_default();
    let uri = job.take("uri");
    let image = ["pool", "rbdname", "clientname", "clustername"].map(|name| job.take(name));
    match engine {
        FioEngine::Waits => {
            if job.get("iodepth").is_some_and(|depth| depth != "1") {
                let depth = job.take("iodepth").unwrap_or_default();
                job.leave(format!("iodepth={depth} (ioengine={name} has one operation in flight)"));
            }
            job.set("iodepth", "1");
        }
        FioEngine::Null => {
            let size = job.get("size").or(job.get("filesize"));
            let bytes = size.and_then(|size| parse_size(size).ok());
            let bytes = bytes.ok_or("ioengine=null needs size=, in bytes")?;
            job.target = Some(format!("null:{}", bytes.next_multiple_of(4096)));
        }
        FioEngine::Nbd => job.target = Some(uri.clone().ok_or("ioengine=nbd needs uri=")?),
        FioEngine::Rbd => job.target = Some(rbd(&image)?),
        FioEngine::Deep | FioEngine::Refused(_) => {}
    }
    if uri.is_some() && engine != FioEngine::Nbd {
        return Err("uri= is of ioengine=nbd".into());
    }
    if image.iter().any(Option::is_some) && engine != FioEngine::Rbd {
        return Err("pool= and rbdname= are of ioengine=rbd".into());
    }
    Ok(())
}

/// The URL of an image: its pool and name, the user and the cluster.
fn rbd([pool, name, client, cluster]: &[Option<String>; 4]) -> Result<String, String> {
    let (Some(pool), Some(name)) = (pool, name) else {
        return Err("ioengine=rbd needs pool= and rbdname=".into());
    };
    let mut url = format!("rbd:{pool}/{name}");
    if let Some(cluster) = cluster.as_ref().filter(|cluster| *cluster != "ceph") {
        url += &format!(",conf=/etc/ceph/{cluster}.conf");
    }
    if let Some(client) = client {
        url += &format!(",id={}", client.strip_prefix("client.").unwrap_or(client));
    }
    Ok(url)
}

/// Sets the device of a job from `filename` and `directory`, and makes a job of each clone that has
/// a file of its own, as fio names it. `section` is the name of the job file's section.
///
/// # Errors
/// Several files.
pub fn with_files(section: &str, mut job: ImportedJob) -> Result<Vec<ImportedJob>, ImportError> {
    let (directory, name) = (job.take("directory"), job.take("filename"));
    if let Some(name) = name.as_deref().filter(|name| names_several(name)) {
        let problem = format!(
            "filename={name} names several files; give each a job, or name a stripe: of them"
        );
        return Err(ImportError::wrong(format!("[{section}]"), problem));
    }
    if job.target.is_some() {
        return Ok(vec![job]);
    }
    let within = |name: &str| match &directory {
        Some(directory) => format!("{directory}/{name}"),
        None => name.to_owned(),
    };
    if let Some(name) = &name {
        job.target = Some(within(name));
        return Ok(vec![job]);
    }
    if directory.is_none() {
        return Ok(vec![job]);
    }
    let clones = job.take("numjobs").and_then(|count| count.parse().ok()).unwrap_or(1u32);
    if clones > JOBS_MAX {
        let problem = format!("numjobs={clones}: at most {JOBS_MAX}");
        return Err(ImportError::wrong(format!("[{section}]"), problem));
    }
    if clones > 1 && job.take("group_reporting").is_some_and(|value| value != "0") {
        job.leave("group_reporting=1 (jobs with a file each are reported each)");
    }
    let clone =
        |n| ImportedJob { target: Some(within(&format!("{section}.{n}.0"))), ..job.clone() };
    Ok((0..clones).map(clone).collect())
}

/// Returns whether a file name has a colon that separates names. URLs, and drives of Windows, have
/// others.
fn names_several(name: &str) -> bool {
    let is_drive =
        name.len() > 2 && name.as_bytes()[1] == b':' && matches!(name.as_bytes()[2], b'\\' | b'/');
    !weft_block::grammar::has_scheme(name) && !is_drive && name.replace("\\:", "").contains(':')
}
