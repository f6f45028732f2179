//! Job files as users of fio write them.

use super::super::{ImportError, ImportedJob, ImportedJobs, OptionSupport};
use super::engines::{ENGINES, FioEngine};
use super::options::FioOption;
use super::*;

fn options(job: &ImportedJob) -> Vec<String> {
    job.options.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn fio(text: &str) -> Result<ImportedJobs, ImportError> {
    let read = |path: &Path| match path.to_str() {
        Some("job.fio") => Ok(text.to_owned()),
        Some("common.fio") => Ok("[global]\nbs=8k\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    };
    let variable = |name: &str| (name == "SIZE").then(|| "1m".to_owned());
    let surroundings = Surroundings {
        read: &read,
        variable: &variable,
        cpus: 3,
        page_bytes: 4096,
        memory_mib: Some(1000),
    };
    import(Path::new("job.fio"), &surroundings)
}

/// The one job of a section with these lines.
fn job(lines: &str) -> ImportedJob {
    fio(&format!("[a]\n{lines}\n")).unwrap_or_else(|e| panic!("{lines}: {e}")).groups[0][0].clone()
}

fn refusal(lines: &str) -> String {
    match fio(&format!("[a]\n{lines}\n")) {
        Ok(imported) => panic!("{lines}: {imported:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn job_files_have_groups_of_jobs_and_global_options() {
    let text = "; a comment\n[global]\ndirect=1\nreadwrite=randread\nblocksize=4k\nruntime=10\ntime_based\n\n\
        [one]\nfilename=/dev/nvme0n1\niodepth=32\n\n[two]\nfilename=/srv/disk\nrw=write\n# another\n\n\
        [global]\nbs=64k\n[three]\nstonewall\nname=last\n";
    let imported = fio(text).unwrap();
    assert_eq!(imported.groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    let [one, two] = &imported.groups[0][..] else { panic!() };
    assert_eq!(one.target.as_deref(), Some("/dev/nvme0n1"));
    let expected = [
        "rw=randread",
        "bs=4096",
        "runtime=10000000us",
        "time_based=1",
        "iodepth=32",
        "name=one",
        "direct=1",
    ];
    assert_eq!(options(one), expected);
    assert_eq!((two.get("rw"), two.get("name")), (Some("write"), Some("two")));
    let last = &imported.groups[1][0];
    assert_eq!(
        (last.get("bs"), last.get("name"), &last.target),
        (Some("65536"), Some("last"), &None)
    );
    assert!(imported.without.is_empty() && one.left_out.is_empty(), "{imported:?}");
}

#[test]
fn job_files_include_others_and_name_one_file() {
    let imported =
        fio("include common.fio\n[a]\ndirectory=/srv\nioengine=psync\niodepth=4\nsize=1m\n")
            .unwrap();
    let job = &imported.groups[0][0];
    assert_eq!(
        (job.get("bs"), job.get("iodepth"), job.target.as_deref()),
        (Some("8192"), Some("1"), Some("/srv/a.0.0"))
    );
    assert!(job.left_out[0].contains("iodepth=4 (ioengine=psync"), "{:?}", job.left_out);
    for (text, part) in [
        ("[a]\nfilename=/dev/a:/dev/b\n", "several files"),
        ("[a]\nthis is nothing\n", "job.fio:2"),
        ("[a\n", "ends with ]"),
        ("include none.fio\n", "no such file"),
        ("include job.fio\n", "include each other"),
        ("[global]\nbs=4k\n", "has no job"),
        ("[a]\nsize=${WEFT_NOT_SET}\n", "WEFT_NOT_SET"),
    ] {
        let error = fio(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
    for url in [
        "nvme+tcp://[::1]:4420/nqn.2014-08.org.example:x",
        r"C:\disk.img",
        r"/dev/disk/by-path/pci-0000\:00",
        r"iscsi\://127.0.0.1/iqn.2016-02.com.fio\:system\:fio/1",
    ] {
        assert!(fio(&format!("[a]\nfilename={url}\n")).is_ok(), "{url}");
    }
}

#[test]
fn values_are_read_as_people_write_them() {
    for (lines, expected) in [
        ("filename=datafile.tmp\t; or use a full disk", None),
        ("numjobs=4 ; 4 simultaneous threads", Some("numjobs=4")),
        ("size=${SIZE} # of each", Some("size=1048576")),
        ("numjobs=$ncpus", Some("numjobs=3")),
        ("size=8*$mb_memory", Some("size=8000")),
        ("bs=$pagesize", Some("bs=4096")),
        ("offset=50%", Some("offset=50%")),
        ("fileoffset=8m", Some("offset=8388608")),
        ("rw=randread:8", Some("rw=randread:8")),
        ("rw=read:-4k", Some("rw=read:-4096")),
        ("rate_iops=90,10", Some("rate_iops=90,10")),
        ("timeout=60", Some("runtime=60000000us")),
        ("bsrange=4k-4k", Some("bsrange=4096-4096")),
        ("percentile_list=99.5:99.9", Some("percentile_list=99.5:99.9")),
        ("size=1GiB", Some("size=1000000000")),
        ("kb_base=1000\nsize=1GiB", Some("size=1073741824")),
        ("thinktime=200", Some("thinktime=200us")),
        ("cpumask=0x5", Some("cpus_allowed=0,2")),
        ("fsync_on_close=1", Some("end_fsync=1")),
        ("blockalign=4k", Some("ba=4096")),
    ] {
        let job = job(lines);
        assert_eq!(job.left_out, Vec::<String>::new(), "{lines}");
        if let Some(expected) = expected {
            assert!(options(&job).iter().any(|it| it == expected), "{lines}: {job:?}");
        }
    }
    assert_eq!(job("filename=datafile.tmp\t; comment").target.as_deref(), Some("datafile.tmp"));
    // The later one counts of two that exclude each other.
    let mixed = options(&job("rwmixread=60\nrwmixwrite=40\nrwmixread=70"));
    assert_eq!(mixed, ["rwmixwrite=40", "rwmixread=70", "name=a"]);
    assert_eq!(options(&job("direct=1\nbuffered=0")), ["name=a", "buffered=0"]);
    assert_eq!(options(&job("bs=4k\nbssplit=4k/50:8k/50")), ["bssplit=4096/50:8192/50", "name=a"]);
    let lfsr = job("norandommap\nrandom_generator=lfsr");
    assert_eq!((lfsr.get("norandommap"), lfsr.get("random_generator")), (None, None));
}

/// The rule of the importer: what decides what is written or measured runs as in fio, or not at
/// all.
#[test]
fn every_option_is_honoured_refused_or_named() {
    for option in FioOption::all() {
        let value = if option.name() == "kb_base" { "1000" } else { "7" };
        let lines = format!("rw=write\n{}={value}", option.name());
        let result = fio(&format!("[a]\n{lines}\n"));
        match (option.answer, result) {
            (OptionSupport::Refused, Err(error)) => {
                let text = error.to_string();
                assert!(text.contains(option.name()) && text.contains(option.note), "{text}");
            }
            (OptionSupport::LeftOut, Ok(imported)) => {
                let job = &imported.groups[0][0];
                assert!(job.left_out.iter().any(|it| it.starts_with(option.name())), "{option:?}");
                assert!(job.get(option.name()).is_none(), "{option:?}");
            }
            (OptionSupport::Honoured, Ok(imported)) => {
                let job = &imported.groups[0][0];
                let is_taken = TRANSLATED.contains(&option.name());
                assert!(is_taken != job.get(option.name()).is_some(), "{option:?}: {job:?}");
            }
            // A value that is not one of those of the option.
            (OptionSupport::Honoured, Err(_)) => assert!(TRANSLATED.contains(&option.name())),
            (answer, result) => panic!("{}: {answer:?}, {result:?}", option.name()),
        }
    }
}

#[test]
fn options_that_fio_does_not_have_end_a_job_that_writes() {
    for rw in ["write", "randwrite", "rw", "randrw", "trim", "randtrim", "write:4k"] {
        let text = refusal(&format!("rw={rw}\nverify_onli=1"));
        assert!(text.contains("[a]: verify_onli=1: fio 3.33 has no option"), "{text}");
    }
    for rw in ["read", "randread:8"] {
        assert!(job(&format!("rw={rw}\nverify_onli=1")).left_out[0].contains("verify_onli=1"));
    }
    assert!(refusal("verify_backlog=1024").contains("verify_backlog=1024 is not supported"));
    // Values that ask for nothing.
    assert_eq!(
        options(&job("rw=write\nverify_backlog=0\ndedupe_global=0\ntrim_percentage=0")),
        ["rw=write", "name=a"]
    );
}

#[test]
fn engines_decide_the_depth_and_the_device() {
    let null = job("ioengine=null\nrw=write\nsize=16m");
    assert_eq!(null.target.as_deref(), Some("null:16777216"));
    let nbd = job("ioengine=nbd\nuri=nbd+unix:///?socket=/run/x.sock\niodepth=64");
    assert_eq!(nbd.target.as_deref(), Some("nbd+unix:///?socket=/run/x.sock"));
    assert_eq!(nbd.get("iodepth"), Some("64"));
    let rbd = job("ioengine=rbd\nclientname=admin\npool=rbd\nrbdname=fio_test");
    assert_eq!(rbd.target.as_deref(), Some("rbd:rbd/fio_test,id=admin"));
    assert_eq!(job("ioengine=sync").get("iodepth"), Some("1"));
    for (lines, part) in [
        ("ioengine=null", "needs size="),
        ("ioengine=nbd", "needs uri="),
        ("ioengine=rbd\npool=x", "needs pool= and rbdname="),
        ("uri=nbd://h/x", "of ioengine=nbd"),
        ("ioengine=net\nhostname=h", "ioengine=net is not supported"),
        ("ioengine=whatever", "ioengine=whatever is not supported"),
    ] {
        assert!(refusal(lines).contains(part), "{lines}: {}", refusal(lines));
    }
    for (name, engine) in ENGINES {
        let is_refused = fio(&format!("[a]\nioengine={name}\n")).is_err();
        let needs_more = [FioEngine::Null, FioEngine::Nbd, FioEngine::Rbd].contains(&engine);
        assert_eq!(is_refused, needs_more || matches!(engine, FioEngine::Refused(_)), "{name}");
    }
}

#[test]
fn clones_have_files_of_their_own_as_in_fio() {
    let targets = |lines: &str| {
        let group = fio(&format!("[a]\n{lines}\n")).unwrap().groups.remove(0);
        group.iter().map(|job| job.target.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(targets("directory=/d\nnumjobs=3"), ["/d/a.0.0", "/d/a.1.0", "/d/a.2.0"]);
    assert_eq!(targets("directory=/d\nfilename=x\nnumjobs=3"), ["/d/x"]);
    assert_eq!(targets("filename=/x\nnumjobs=3"), ["/x"]);
    assert!(refusal("directory=/d\nnumjobs=1000000").contains("at most"));
}

#[test]
fn jobs_wait_for_named_ones() {
    let groups = |text: &str| {
        let group = |group: Vec<ImportedJob>| {
            group.iter().map(|job| job.get("name").unwrap().to_owned()).collect::<String>()
        };
        fio(text).map(|imported| imported.groups.into_iter().map(group).collect::<Vec<_>>())
    };
    let sections = |text: &str| text.replace(' ', "\n");
    for (text, expected) in [
        ("[a] [b] wait_for=a [c] wait_for=b", vec!["a", "b", "c"]),
        ("[a] [b] wait_for=a [c] wait_for=a", vec!["a", "bc"]),
        ("[a] [b] stonewall [c] wait_for=a", vec!["a", "bc"]),
        ("[a] [b] wait_for_previous [c]", vec!["a", "bc"]),
        ("[a] [b] wait_for=a [c] stonewall [d]", vec!["a", "b", "cd"]),
    ] {
        assert_eq!(groups(&sections(text)).unwrap(), expected, "{text}");
    }
    for (text, part) in [
        ("[a] [b] wait_for=x", "no such job"),
        ("[a] [b] [c] wait_for=a", "other jobs run at the same time"),
        ("[a] [b] wait_for=a [c]", "put it before"),
    ] {
        let error = groups(&sections(text)).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// fio's own examples (Debian's package fio-examples), where they are installed.
#[test]
fn the_examples_of_fio_are_read_or_refused_by_name() {
    let Ok(files) = std::fs::read_dir("/usr/share/doc/fio/examples") else {
        return weft_testing::skip("the package fio-examples is missing");
    };
    let mut read = 0;
    for path in
        files.map(|file| file.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "fio"))
    {
        let surroundings = Surroundings {
            read: &|path| std::fs::read_to_string(path).map_err(|e| e.to_string()),
            variable: &|_| Some("1".to_owned()),
            cpus: 2,
            page_bytes: 4096,
            memory_mib: Some(1000),
        };
        match import(&path, &surroundings) {
            Ok(_) => read += 1,
            Err(ImportError::Wrong { problem, .. }) => {
                let is_named =
                    ["is not supported", "has no option", "several files", "other jobs run"];
                assert!(is_named.iter().any(|it| problem.contains(it)), "{path:?}: {problem}");
            }
            Err(error) => panic!("{path:?}: {error}"),
        }
    }
    assert!(read >= 30, "{read} of fio's examples are read");
}
