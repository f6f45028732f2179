use std::cell::RefCell;

use super::super::work::*;

/// A model of the kernel, which keeps what it was asked for.
#[derive(Default)]
struct Model {
    asked: RefCell<Vec<String>>,
    modules: RefCell<Vec<String>>,
    /// Calls that fail, each as often as it is here.
    failing: RefCell<Vec<String>>,
}

impl Model {
    fn asks(&self, call: String) -> io::Result<()> {
        let mut failing = self.failing.borrow_mut();
        let fails = failing.iter().position(|it| *it == call);
        self.asked.borrow_mut().push(call);
        match fails {
            Some(at) => {
                failing.remove(at);
                Err(io::ErrorKind::ResourceBusy.into())
            }
            None => Ok(()),
        }
    }
}

impl Calls for &Model {
    fn modules(&self) -> Vec<String> {
        self.modules.borrow().clone()
    }

    fn load(&self, module: &str, _: &[String]) -> Result<(), String> {
        // It needs another one.
        let new = [module.to_owned(), format!("{module}_core")];
        self.modules.borrow_mut().splice(0..0, new);
        self.asks(format!("load {module}")).map_err(|e| e.to_string())
    }

    fn unload(&self, module: &str) -> bool {
        let is_gone = self.asks(format!("unload {module}")).is_ok();
        self.modules.borrow_mut().retain(|it| it != module || !is_gone);
        is_gone
    }

    fn make(&self, path: &str) -> io::Result<()> {
        match path {
            "/shared" => Err(io::ErrorKind::AlreadyExists.into()),
            path => self.asks(format!("make {path}")),
        }
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.asks(format!("remove {path}"))
    }

    fn write(&self, path: &str, value: &str) -> io::Result<()> {
        self.asks(format!("write {value} {path}"))
    }

    fn link(&self, to: &str, path: &str) -> io::Result<()> {
        self.asks(format!("link {to} {path}"))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.asks(format!("unlink {path}"))
    }

    fn connect(&self, options: &str) -> io::Result<()> {
        self.asks(format!("connect {options}"))
    }

    fn disconnect(&self, nqn: &str) -> bool {
        self.asks(format!("disconnect {nqn}")).is_ok()
    }

    fn run(&self, command: &[String]) -> Result<(), String> {
        self.asks(format!("run {}", command.join(" "))).map_err(|e| e.to_string())
    }

    fn pause(&self, _: Duration) {}
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// One of each.
fn steps() -> Vec<KernelStep> {
    let write = |undo: Option<&str>| KernelStep::Write {
        path: "/a/on".into(),
        value: "1".into(),
        undo: undo.map(str::to_owned),
    };
    vec![
        KernelStep::Load { module: "m".into(), parameters: vec![] },
        KernelStep::Make("/a".into()),
        KernelStep::Share("/shared".into()),
        KernelStep::Share("/b".into()),
        write(None),
        write(Some("0")),
        KernelStep::Link { path: "/b/a".into(), to: "/a".into() },
        KernelStep::Connect { nqn: "nqn.x".into(), options: "nqn=nqn.x".into() },
        KernelStep::Run { command: words("in"), undo: words("out"), in_part: false },
    ]
}

/// The ways back of the group, and those of objects that others may need.
const BACK: [&str; 5] =
    ["run out", "disconnect nqn.x", "unlink /b/a", "write 0 /a/on", "remove /a"];
const COMMON: [&str; 3] = ["remove /b", "unload m", "unload m_core"];

#[test]
fn all_changes_are_undone_in_reverse() {
    let model = Model::default();
    let mut work = KernelWork::new(&model);
    work.perform(1, &steps()).unwrap();
    model.asked.borrow_mut().clear();
    work.undo(1).unwrap();
    assert_eq!(*model.asked.borrow(), BACK);
    assert_eq!(model.modules.borrow().len(), 2);
    work.undo_all().unwrap();
    assert_eq!(model.asked.borrow()[BACK.len()..], COMMON);
    assert!(model.modules.borrow().is_empty());
}

#[test]
fn a_failure_undoes_what_came_before_it() {
    let model = Model::default();
    model.failing.borrow_mut().push("link /a /b/a".into());
    let mut work = KernelWork::new(&model);
    let said = work.perform(1, &steps()).unwrap_err();
    assert!(said.starts_with("`ln -s /a /b/a` failed: "), "{said}");
    let after = model.asked.borrow().iter().position(|it| it.starts_with("link")).unwrap() + 1;
    assert_eq!(model.asked.borrow()[after..], BACK[3..]);
    work.undo_all().unwrap();
    assert_eq!(model.asked.borrow()[after..], [&BACK[3..], &COMMON].concat());
}

#[test]
fn a_connection_that_failed_is_closed_and_a_command_only_if_it_says_so() {
    let model = Model::default();
    let run = |in_part| KernelStep::Run { command: words("in"), undo: words("out"), in_part };
    let connect = KernelStep::Connect { nqn: "nqn.x".into(), options: "o".into() };
    for (step, wanted) in [
        (connect, ["connect o", "disconnect nqn.x"].as_slice()),
        (run(true), &["run in", "run out"]),
        (run(false), &["run in"]),
    ] {
        model.asked.borrow_mut().clear();
        model.failing.borrow_mut().push(wanted[0].to_owned());
        KernelWork::new(&model).perform(1, &[step]).unwrap_err();
        assert_eq!(*model.asked.borrow(), wanted);
    }
}

#[test]
fn modules_that_were_loaded_stay() {
    let model = Model::default();
    model.modules.borrow_mut().push("m_core".into());
    let mut work = KernelWork::new(&model);
    work.perform(1, &[KernelStep::Load { module: "m".into(), parameters: vec![] }]).unwrap();
    work.undo_all().unwrap();
    assert_eq!(*model.modules.borrow(), ["m_core", "m_core"], "the model has it twice");
    assert!(!model.asked.borrow().contains(&"unload m_core".to_owned()));
}

#[test]
fn what_is_busy_is_tried_again_and_in_the_end_reported() {
    let model = Model::default();
    let mut work = KernelWork::new(&model);
    work.perform(1, &steps()[1..2]).unwrap();
    work.perform(2, &steps()[7..8]).unwrap();
    model.failing.borrow_mut().extend(vec!["remove /a".to_owned(); TRIES as usize - 1]);
    work.undo(1).unwrap();
    model.failing.borrow_mut().extend(vec!["disconnect nqn.x".to_owned(); 2 * TRIES as usize]);
    let said = "`nvme disconnect -n nqn.x`".to_owned();
    assert_eq!(work.undo(2), Err(said.clone()));
    assert_eq!(work.undo_all(), Err(said), "it stays in its group");
}

#[test]
fn groups_are_undone_in_reverse_and_alone() {
    let model = Model::default();
    let mut work = KernelWork::new(&model);
    for (group, path) in [(1, "/1"), (2, "/2"), (3, "/3")] {
        work.perform(group, &[KernelStep::Make(path.into())]).unwrap();
    }
    work.adopt(4, Undo::Remove("/4".into()));
    model.asked.borrow_mut().clear();
    work.undo(2).unwrap();
    work.undo_all().unwrap();
    assert_eq!(*model.asked.borrow(), ["remove /2", "remove /4", "remove /3", "remove /1"]);
}
