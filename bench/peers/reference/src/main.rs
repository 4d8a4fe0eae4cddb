//! The workload of `bench/workload.py` on the published Rust runtime: one thread, stores in memory.
//!
//! `reference-harness WORK.json` reads what `bench/peers/run.py` wrote (agents, turns, wave, texts) and
//! prints one JSON object: completions, wall and CPU seconds, and bytes resident after each wave.

mod agent;
mod measure;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use infinity_agent_core::ThreadId;
use infinity_agent_core::stores::{InMemoryConversationStore, InMemoryStateStore};
use infinity_agent_core::system::local::RunningSystem;
use infinity_agent_core::system::{AgentEvent, AgentSystemBuilder, StaticModel, ThreadObserver};
use serde::{Deserialize, Serialize};

use agent::{RunCommand, Scripted, entry};

/// What is run, and every text of it.
#[derive(Deserialize)]
pub struct Work {
    agents: usize,
    turns: usize,
    wave: usize,
    /// Has `{turn}` and `{agent}` in it.
    said: String,
    pieces: Vec<Vec<String>>,
    outputs: Vec<String>,
}

#[derive(Serialize)]
struct Figures {
    completions: u64,
    seconds: f64,
    cpu_seconds: f64,
    rss_bytes: Vec<(usize, u64)>,
}

/// Counts what ends; shared by all threads' observers.
struct Counting(Rc<Cell<u64>>);

impl ThreadObserver for Counting {
    type SubscribeRequest = ();

    fn on_event(&self, _thread: &ThreadId<str>, event: &AgentEvent) {
        if let AgentEvent::CompletionFinished { .. } = event {
            self.0.set(self.0.get() + 1);
        }
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("give the file with the work");
    let text = std::fs::read_to_string(path).expect("the file with the work can be read");
    let work: Arc<Work> = Arc::new(serde_json::from_str(&text).expect("the work is JSON"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let figures = tokio::task::LocalSet::new().block_on(&runtime, run(work));
    println!("{}", serde_json::to_string(&figures).expect("figures are JSON"));
}

async fn run(work: Arc<Work>) -> Figures {
    let done = Rc::new(Cell::new(0));
    let model = StaticModel::from_entry(Arc::new(Scripted::new(work.clone())), &entry());
    let counted = done.clone();
    let mut system = AgentSystemBuilder::new_local(
        InMemoryConversationStore::new(),
        InMemoryStateStore::new(),
        model,
    )
    .tool(Box::new(RunCommand::new(work.clone())))
    .build_local()
    .start_with_observer(move |_| Counting(counted.clone()));

    let mut figures = Figures {
        completions: 0,
        seconds: 0.0,
        cpu_seconds: 0.0,
        rss_bytes: vec![(0, measure::resident())],
    };
    for first in (0..work.agents).step_by(work.wave) {
        let wave = first..work.agents.min(first + work.wave);
        let (wall, cpu) = (Instant::now(), measure::cpu_seconds());
        for turn in 0..work.turns {
            let target = done.get() + 2 * wave.len() as u64;
            for agent in wave.clone() {
                let name: ThreadId = format!("agent-{agent}").as_str().into();
                let words = work.said.replace("{turn}", &turn.to_string()).replace("{agent}", name.as_str());
                system.send_user_text(&name, words).await;
            }
            until(&system, || done.get() >= target).await;
        }
        until(&system, || system.is_idle()).await;
        while system.try_next_lifecycle_event().is_ok() {}
        figures.seconds += wall.elapsed().as_secs_f64();
        figures.cpu_seconds += measure::cpu_seconds() - cpu;
        figures.rss_bytes.push((wave.end, measure::resident()));
    }
    figures.completions = done.get();
    system.shutdown().await;
    figures
}

/// Look every two milliseconds; a minute without an end is a failure.
async fn until(_system: &RunningSystem<()>, reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(300), "the agents do not come to rest");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
