//! vdbench's parameter files for block devices (its manual, "Parameter file"): storage definitions
//! (`sd`), workloads (`wd`) and runs (`rd`).

mod lines;
pub mod options;
mod reader;
#[cfg(test)]
mod tests;

use lines::{Definition, chosen, logical_lines, parameters};
use reader::{Choice, Reader};
use weft_block::units::parse_size;

use super::{ImportError, ImportedJob, ImportedJobs, OptionSupport, Options};

/// Maximum number of runs that the lists of one file ask for.
const RUNS_MAX: usize = 4096;

/// Reads a parameter file; `name` is said in errors.
///
/// # Errors
/// A line that is not a parameter, an undefined name, an invalid value, a parameter that is refused
/// or that vdbench does not have, or no run.
pub fn import(name: &str, text: &str) -> Result<ImportedJobs, ImportError> {
    let mut reader = Reader {
        file: name,
        imported: ImportedJobs::default(),
        sds: Vec::new(),
        wds: Vec::new(),
        rds: Vec::new(),
    };
    let mut defaults: Vec<(String, Definition)> = Vec::new();
    for (at, line) in logical_lines(text) {
        let parameters = parameters(&line).map_err(|problem| reader.wrong(at, problem))?;
        let Some(((keyword, names), rest)) = parameters.split_first() else { continue };
        let known = match keyword.as_str() {
            "sd" => options::SD,
            "wd" => options::WD,
            "rd" => options::RD,
            "hd" => options::HD,
            _ => {
                reader.answer(at, options::GENERAL, &parameters)?;
                continue;
            }
        };
        reader.answer(at, known, rest)?;
        let name = names.first().cloned().unwrap_or_default();
        let inherited = defaults
            .iter()
            .find(|(of, _)| of == keyword)
            .map(|(_, default)| default.parameters.clone());
        let parameters = inherited.into_iter().flatten().chain(rest.iter().cloned()).collect();
        let definition = Definition { name, at, parameters };
        match keyword.as_str() {
            _ if definition.name == "default" => {
                defaults.retain(|(of, _)| of != keyword);
                defaults.push((keyword.clone(), definition));
            }
            "sd" => reader.sds.push(definition),
            "wd" => reader.wds.push(definition),
            "rd" => reader.rds.push(definition),
            _ => {}
        }
    }
    reader.runs()?;
    reader.imported.some(name)
}

impl Reader<'_> {
    /// Refuses parameters, or notes that they are left out.
    fn answer(
        &mut self,
        at: usize,
        of: &Options,
        parameters: &[(String, Vec<String>)],
    ) -> Result<(), ImportError> {
        for (name, values) in parameters {
            let text = format!("{name}={}", values.join(","));
            match options::answer(of, name, values) {
                Some((OptionSupport::Honoured, _)) => {}
                Some((OptionSupport::LeftOut, note)) => {
                    self.imported.lack(format!("{text} ({note})"))
                }
                Some((OptionSupport::Refused, note)) => {
                    return Err(self.wrong(at, format!("{text} is not supported: {note}")));
                }
                None => {
                    let problem = format!("{text}: vdbench has no parameter of this name here");
                    return Err(self.wrong(at, problem));
                }
            }
        }
        Ok(())
    }

    fn runs(&mut self) -> Result<(), ImportError> {
        for rd in self.rds.clone() {
            for choice in self.choices(&rd)? {
                let jobs = self.jobs(&rd, &choice)?;
                self.imported.groups.push(jobs);
            }
        }
        Ok(())
    }

    /// Every combination of the values in a run's lists, the last list fastest.
    fn choices(&self, rd: &Definition) -> Result<Vec<Choice>, ImportError> {
        type Set = fn(&mut Choice, String);
        let lists: [([&str; 2], Set); 5] = [
            (["forxfersize", "xfersize"], |choice, value| choice.xfersize = Some(value)),
            (["forrdpct", "rdpct"], |choice, value| choice.rdpct = Some(value)),
            (["forseekpct", "seekpct"], |choice, value| choice.seekpct = Some(value)),
            (["forthreads", "threads"], |choice, value| choice.threads = Some(value)),
            (["foriorate", "iorate"], |choice, value| choice.iorate = Some(value)),
        ];
        let mut choices = vec![Choice::default()];
        for (names, set) in lists {
            let Some(values) = names.iter().find_map(|name| rd.get(name)) else { continue };
            let values = self.steps(rd, values)?;
            let all = choices.iter().flat_map(|choice| {
                values.iter().map(move |value| {
                    let mut choice = choice.clone();
                    set(&mut choice, value.clone());
                    choice
                })
            });
            choices = all.take(RUNS_MAX + 1).collect();
        }
        match choices.len() > RUNS_MAX {
            true => Err(self.wrong(rd.at, format!("its lists ask for more than {RUNS_MAX} runs"))),
            false => Ok(choices),
        }
    }

    /// The values of a list; `(1000-5000,1000)` counts in steps.
    fn steps(&self, rd: &Definition, values: &[String]) -> Result<Vec<String>, ImportError> {
        let number = |text: &str| text.parse::<u64>().ok();
        let range =
            |text: &str| text.split_once('-').and_then(|(from, to)| number(from).zip(number(to)));
        let [first, step] = values else { return Ok(values.to_vec()) };
        let Some((from, to)) = range(first) else { return Ok(values.to_vec()) };
        let step = number(step).filter(|step| *step > 0 && to / step <= RUNS_MAX as u64);
        let step = step.ok_or_else(|| {
            self.wrong(
                rd.at,
                format!("({first},…) needs a step, and asks for {RUNS_MAX} runs at most"),
            )
        })?;
        Ok((from..=to).step_by(step as usize).map(|value| value.to_string()).collect())
    }

    /// The jobs of one run: one for each workload and storage.
    fn jobs(&mut self, rd: &Definition, choice: &Choice) -> Result<Vec<ImportedJob>, ImportError> {
        let all = || vec!["*".to_owned()];
        let wanted = rd.get("wd").map_or_else(all, <[String]>::to_vec);
        let wds = chosen(&self.wds, &wanted)
            .ok_or_else(|| self.wrong(rd.at, format!("there is no wd={}", wanted.join(","))))?;
        let mut jobs = Vec::new();
        for wd in &wds {
            // The storage of a run counts instead of that of its workloads.
            let wanted = rd.get("sd").or(wd.get("sd")).map_or_else(all, <[String]>::to_vec);
            let sds = chosen(&self.sds, &wanted)
                .ok_or_else(|| self.wrong(wd.at, format!("there is no sd={}", wanted.join(","))))?;
            let mut of_wd = Vec::new();
            for sd in &sds {
                of_wd.push(self.job(rd, wd, sd, choice)?);
            }
            self.rates(rd, wd, wds.len(), choice, &mut of_wd)?;
            jobs.append(&mut of_wd);
        }
        self.most_data(rd, &mut jobs)?;
        Ok(jobs)
    }

    /// The rate of a workload: its own, or its share of that of the run. It is divided evenly
    /// between its jobs.
    fn rates(
        &self,
        rd: &Definition,
        wd: &Definition,
        wds: usize,
        choice: &Choice,
        jobs: &mut [ImportedJob],
    ) -> Result<(), ImportError> {
        let skew = wd.one("skew").filter(|skew| *skew != "0");
        let rate = match choice.iorate.as_deref().unwrap_or("max") {
            "curve" => {
                let problem = "iorate=curve is not supported: give the rates as a list";
                return Err(self.wrong(rd.at, problem));
            }
            "max" => None,
            number => Some(number.parse::<u64>().map_err(|_| {
                self.wrong(
                    rd.at,
                    format!("iorate={number} is not a number of operations per second"),
                )
            })?),
        };
        let rate = match (wd.one("iorate"), rate, skew) {
            (Some(own), ..) => Some(own.parse().map_err(|_| {
                self.wrong(wd.at, format!("iorate={own} is not a number of operations per second"))
            })?),
            (None, Some(rate), Some(skew)) => {
                let percent = skew.parse::<u64>().ok().filter(|percent| *percent <= 100);
                let percent = percent
                    .ok_or_else(|| self.wrong(wd.at, format!("skew={skew} is not a percentage")))?;
                Some(rate * percent / 100)
            }
            (None, None, Some(skew)) if wds > 1 => {
                let problem = format!("skew={skew} needs a number for iorate");
                return Err(self.wrong(wd.at, problem));
            }
            (None, None, _) => None,
            (None, Some(rate), None) => Some(rate / wds as u64),
        };
        let Some(rate) = rate else { return Ok(()) };
        let is_random = match rd.one("distribution") {
            None | Some("exponential" | "e") => true,
            Some("deterministic" | "d") => false,
            Some(other) => {
                let problem = format!("distribution={other}: use exponential or deterministic");
                return Err(self.wrong(rd.at, problem));
            }
        };
        let share = (rate / jobs.len().max(1) as u64).max(1);
        for job in jobs {
            job.set("rate_total_iops", share.to_string());
            if is_random {
                job.set("rate_process", "poisson");
            }
        }
        Ok(())
    }

    /// `maxdata`: the run ends with this many bytes.
    fn most_data(&self, rd: &Definition, jobs: &mut [ImportedJob]) -> Result<(), ImportError> {
        let Some(bytes) = rd.one("maxdata") else { return Ok(()) };
        let [job] = jobs else {
            let problem = format!("maxdata={bytes} needs one workload on one disk");
            return Err(self.wrong(rd.at, problem));
        };
        job.set("io_size", bytes);
        job.set("time_based", "0");
        Ok(())
    }
}

impl Reader<'_> {
    fn job(
        &self,
        rd: &Definition,
        wd: &Definition,
        sd: &Definition,
        choice: &Choice,
    ) -> Result<ImportedJob, ImportError> {
        let mut job = ImportedJob::default();
        let percent = |name: &str, chosen: &Option<String>| -> Result<u8, ImportError> {
            let text = chosen.as_deref().or(wd.one(name)).unwrap_or("100");
            let value = match text {
                "random" => Some(100),
                "seq" | "sequential" | "eof" | "seqnz" => Some(0),
                text => text.parse().ok().filter(|percent| *percent <= 100),
            };
            value.ok_or_else(|| self.wrong(wd.at, format!("{name}={text} is not a percentage")))
        };
        let (reads, seeks) =
            (percent("rdpct", &choice.rdpct)?, percent("seekpct", &choice.seekpct)?);
        let pattern = match (seeks > 0, reads) {
            (true, 100) => "randread",
            (true, 0) => "randwrite",
            (true, _) => "randrw",
            (false, 100) => "read",
            (false, 0) => "write",
            (false, _) => "rw",
        };
        job.set("name", format!("{}-{}-{}", rd.name, wd.name, sd.name));
        job.set("rw", pattern);
        if !matches!(reads, 0 | 100) {
            job.set("rwmixread", reads.to_string());
        }
        if seeks > 0 {
            job.set("norandommap", "1");
        }
        if !matches!(seeks, 0 | 100) {
            job.set("percentage_random", seeks.to_string());
        }
        self.sizes(&mut job, wd, choice)?;
        let threads =
            choice.threads.as_deref().or(wd.one("threads")).or(sd.one("threads")).unwrap_or("8");
        job.set("iodepth", threads);
        job.set("runtime", rd.one("elapsed").unwrap_or("30"));
        // A sequential run may end with the disk.
        let to_end = choice.seekpct.as_deref().or(wd.one("seekpct")) == Some("eof");
        job.set("time_based", u8::from(!to_end).to_string());
        if let Some(warmup) = rd.one("warmup") {
            job.set("ramp_time", warmup);
        }
        if let Some(align) = sd.one("align").filter(|_| seeks > 0) {
            job.set("blockalign", align);
        }
        self.flags(&mut job, [rd, wd, sd])?;
        self.place(&mut job, wd, sd)?;
        Ok(job)
    }

    /// `openflags`: of the run, else of the workload, else of the storage.
    fn flags(&self, job: &mut ImportedJob, from: [&Definition; 3]) -> Result<(), ImportError> {
        let given = from.iter().find_map(|of| of.get("openflags").map(|flags| (of.at, flags)));
        let Some((at, flags)) = given else { return Ok(()) };
        let mut direct = false;
        for flag in flags {
            match flag.as_str() {
                "o_direct" | "directio" => direct = true,
                "o_sync" | "o_dsync" | "sync" => job.set("sync", "dsync"),
                "fsync" => job.set("end_fsync", "1"),
                other => {
                    let problem = format!(
                        "openflags={other} is not supported: use o_direct, directio, o_sync, o_dsync or fsync"
                    );
                    return Err(self.wrong(at, problem));
                }
            }
        }
        job.set("direct", u8::from(direct).to_string());
        Ok(())
    }

    /// Sets the storage, and the part of it that is read and written.
    fn place(
        &self,
        job: &mut ImportedJob,
        wd: &Definition,
        sd: &Definition,
    ) -> Result<(), ImportError> {
        job.target = sd.one("lun").map(str::to_owned);
        if job.target.is_none() {
            return Err(self.wrong(sd.at, format!("sd={} has no lun", sd.name)));
        }
        let (size, offset) = (sd.one("size"), sd.one("offset"));
        let Some((at, range)) = [wd, sd].iter().find_map(|of| Some((of.at, of.get("range")?)))
        else {
            if let Some(size) = size {
                job.set("size", size);
            }
            if let Some(offset) = offset {
                job.set("offset", offset);
            }
            return Ok(());
        };
        let [begin, end] = range else {
            return Err(self.wrong(at, "range=(from,to) has two values"));
        };
        if offset.is_some() {
            return Err(self.wrong(at, "range= with offset= is not supported: use one of them"));
        }
        self.range(job, at, size, [begin, end])
    }

    /// `range`: percentages of the storage, or bytes.
    fn range(
        &self,
        job: &mut ImportedJob,
        at: usize,
        size: Option<&str>,
        [begin, end]: [&String; 2],
    ) -> Result<(), ImportError> {
        let wrong = |problem: String| self.wrong(at, problem);
        let percent = |text: &str| text.parse::<u64>().ok().filter(|percent| *percent <= 100);
        let bytes = |text: &str| parse_size(text).map_err(|e| wrong(e.to_string()));
        match (percent(begin), percent(end), size) {
            (Some(from), Some(to), _) if from >= to => {
                Err(wrong(format!("range=({begin},{end}) is empty")))
            }
            (Some(from), Some(to), None) => {
                job.set("offset", format!("{from}%"));
                job.set("offset_end", format!("{to}%"));
                Ok(())
            }
            (Some(from), Some(to), Some(size)) => {
                let size = bytes(size)?;
                let part = |percent: u64| (u128::from(size) * u128::from(percent) / 100) as u64;
                // In whole blocks of any size.
                let (from, to) = (part(from).next_multiple_of(1 << 20), part(to));
                if from >= to {
                    let of = format!("range=({begin},{end}) of {size} bytes");
                    return Err(wrong(format!("{of} holds no whole MiB")));
                }
                job.set("offset", from.to_string());
                job.set("size", (to - from).to_string());
                Ok(())
            }
            _ => {
                let (from, to) = (bytes(begin)?, bytes(end)?);
                let size = to.checked_sub(from).filter(|size| *size > 0);
                let size = size.ok_or_else(|| wrong(format!("range=({begin},{end}) is empty")))?;
                job.set("offset", from.to_string());
                job.set("size", size.to_string());
                Ok(())
            }
        }
    }

    /// Sizes of operations.
    fn sizes(
        &self,
        job: &mut ImportedJob,
        wd: &Definition,
        choice: &Choice,
    ) -> Result<(), ImportError> {
        match (&choice.xfersize, wd.get("xfersize").unwrap_or_default()) {
            (Some(size), _) => job.set("bs", &**size),
            (None, []) => job.set("bs", "4k"),
            (None, [size]) => job.set("bs", &**size),
            // (4k,70,64k,30): sizes with their percentages.
            (None, sizes) if sizes.len().is_multiple_of(2) => {
                let split: Vec<String> =
                    sizes.chunks(2).map(|pair| format!("{}/{}", pair[0], pair[1])).collect();
                job.set("bssplit", split.join(":"));
            }
            // (4k,64k,4k): sizes between two, in steps.
            (None, [least, most, step]) if least == step => {
                job.set("bsrange", format!("{least}-{most}"));
            }
            (None, sizes) => {
                let text = format!(
                    "xfersize=({}): sizes between two are supported in steps of the first only",
                    sizes.join(",")
                );
                return Err(self.wrong(wd.at, text));
            }
        }
        Ok(())
    }
}
