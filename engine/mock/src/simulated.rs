//! The simulated server in virtual time: the same machine behind the transport trait, no sockets.

mod prompt;
mod streams;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use agentx_corpus::SessionTemplate;
use agentx_replay::VirtualClock;
use agentx_types::{
    DispatchMeta, DispatchRequest, ErrorClass, FirstToken, HttpTiming, Nanos, Outcome, OutcomeKind, RequestError,
    RequestKey, Transport, TransportStats, Usage,
};
use tokio::sync::oneshot;

use crate::api::overflow;
use crate::chat;
use crate::error::MockError;
use crate::model::Ask;
use crate::options::MockOptions;

use prompt::PromptBlocks;
use streams::{Answered, Streams};

/// What the simulated server has to know besides its options.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// How it behaves. Port, key, log and tokenizer mean nothing here.
    pub options: MockOptions,
    /// The templates that requests point into.
    pub templates: Arc<[Arc<SessionTemplate>]>,
    /// Answers are as long as was asked for; else the model may stop by itself.
    pub ignore_eos: bool,
    /// Answers come token by token.
    pub streaming: bool,
}

/// Answers through the virtual clock.
pub struct SimulatedServer {
    shared: Rc<Shared>,
}

/// A server whose options were found good.
#[derive(Clone, Debug)]
pub struct SimulatedMachine(Simulated);

impl SimulatedMachine {
    /// The server, idle and with a cold cache.
    pub fn start(self, clock: Rc<VirtualClock>) -> SimulatedServer {
        SimulatedServer::new(self.0, clock)
    }
}

struct Shared {
    clock: Rc<VirtualClock>,
    setup: Simulated,
    state: RefCell<State>,
}

struct State {
    streams: Streams,
    prompts: PromptBlocks,
    /// Matches of each fail rule so far.
    failures: Vec<u64>,
    open: BTreeMap<u64, oneshot::Sender<Reply>>,
    /// Who is told of a request's first token.
    first_tokens: BTreeMap<u64, (FirstToken, RequestKey)>,
    next: u64,
    /// The wake-up that is on its way.
    armed: Option<Nanos>,
}

enum Reply {
    Answered(Answered),
    Cancelled,
}

impl SimulatedServer {
    /// Checks the options.
    pub fn machine(setup: Simulated) -> Result<SimulatedMachine, MockError> {
        setup.options.validate()?;
        Ok(SimulatedMachine(setup))
    }

    fn new(setup: Simulated, clock: Rc<VirtualClock>) -> Self {
        let state = State {
            streams: Streams::new(&setup.options),
            prompts: PromptBlocks::new(&setup.options),
            failures: vec![0; setup.options.fail.len()],
            open: BTreeMap::new(),
            first_tokens: BTreeMap::new(),
            next: 0,
            armed: None,
        };
        Self { shared: Rc::new(Shared { clock, setup, state: RefCell::new(state) }) }
    }
}

impl Transport for SimulatedServer {
    fn send(&self, request: DispatchRequest) -> Pin<Box<dyn Future<Output = Outcome>>> {
        let shared = &self.shared;
        let start = shared.clock.now();
        let key = request.meta.key;
        let prompt_tokens = request.prompt.input_tokens();
        if let Some(kind) = shared.refusal(&request, prompt_tokens) {
            return Box::pin(std::future::ready(refused(&request.meta, kind, start)));
        }
        let (sender, receiver) = oneshot::channel();
        let length = {
            let mut state = shared.state.borrow_mut();
            let id = state.next;
            state.next += 1;
            let template = &shared.setup.templates[request.prompt.at.template.index()];
            let (blocks, seed) = state.prompts.of(template, &request.prompt, prompt_tokens);
            let length = chat::length(Some(request.meta.max_tokens), shared.setup.ignore_eos, seed);
            state.open.insert(id, sender);
            if let Some(first_token) = request.first_token {
                state.first_tokens.insert(id, (first_token, key));
            }
            state.streams.arrive(id, Ask { prompt: prompt_tokens, blocks, output: length.0 }, start);
            length
        };
        Shared::announce(shared);
        Shared::arm(shared);
        let clock = shared.clock.clone();
        let streaming = shared.setup.streaming;
        Box::pin(async move {
            match receiver.await {
                Ok(Reply::Answered(answered)) => {
                    let mut outcome = answer(&request.meta, answered, start, streaming);
                    let (prompt, completion) = (prompt_tokens, u64::from(length.0));
                    outcome.finish_reason = Some(length.1.to_owned());
                    outcome.usage = outcome.usage.map(|usage| Usage {
                        prompt: Some(prompt),
                        completion: Some(completion),
                        total: Some(prompt + completion),
                        ..usage
                    });
                    outcome
                }
                _ => Outcome::without_response(key, OutcomeKind::Cancelled, start, clock.now()),
            }
        })
    }

    fn cancel_all(&self) {
        let now = self.shared.clock.now();
        let open = std::mem::take(&mut self.shared.state.borrow_mut().open);
        for (id, sender) in open {
            self.shared.state.borrow_mut().streams.cut_off(id, now);
            // A closed channel: nobody waits for it any more.
            drop(sender.send(Reply::Cancelled));
        }
    }

    fn stats(&self) -> TransportStats {
        TransportStats { connections_opened: self.shared.state.borrow().next, ..TransportStats::default() }
    }
}

impl Shared {
    /// Sees to it that whoever waits for the first token of a request that was let in is told of it in time.
    fn announce(shared: &Rc<Self>) {
        let mut state = shared.state.borrow_mut();
        for (id, first) in state.streams.take_admitted() {
            let Some((first_token, key)) = state.first_tokens.remove(&id) else { continue };
            let at = shared.clock.at_of(first, key);
            tokio::task::spawn_local(async move {
                at.await;
                first_token.notify();
            });
        }
    }

    /// Sees to it that the machine is looked at when its next answer is complete.
    fn arm(shared: &Rc<Self>) {
        let due = {
            let mut state = shared.state.borrow_mut();
            let Some(due) = state.streams.next_end() else { return };
            if state.armed.is_some_and(|armed| armed <= due) {
                return;
            }
            state.armed = Some(due);
            due
        };
        let at = shared.clock.at(due);
        let shared = Rc::clone(shared);
        tokio::task::spawn_local(async move {
            let now = at.await;
            shared.wake(now);
            Self::announce(&shared);
            Self::arm(&shared);
        });
    }

    fn wake(&self, now: Nanos) {
        let mut state = self.state.borrow_mut();
        if state.armed.is_some_and(|armed| armed <= now) {
            state.armed = None;
        }
        for (id, answered) in state.streams.advance(now) {
            if let Some(sender) = state.open.remove(&id) {
                drop(sender.send(Reply::Answered(answered)));
            }
        }
    }

    /// Why a request is not let in, in the order of the HTTP server.
    fn refusal(&self, request: &DispatchRequest, prompt_tokens: u64) -> Option<OutcomeKind> {
        let options = &self.setup.options;
        let meta = &request.meta;
        let error = |kind: &str, code: u16, message: String| RequestError {
            class: ErrorClass::Server(kind.into()),
            code: Some(i64::from(code)),
            message,
        };
        let mut state = self.state.borrow_mut();
        for (rule, matches) in options.fail.iter().zip(&mut state.failures) {
            let ids = [Some(meta.x_request_id), Some(meta.x_correlation_id), Some(meta.root_correlation_id)];
            let in_ids = ids.iter().flatten().any(|id| id.to_string().contains(&rule.matches));
            let in_marker = request.prompt.marker.as_ref().is_some_and(|marker| marker.text.contains(&rule.matches));
            if !(rule.matches.is_empty() || in_ids || in_marker) {
                continue;
            }
            *matches += 1;
            if rule.nth.is_none_or(|nth| nth == *matches) {
                let message = format!("HTTP {}: this request was told to fail", rule.status);
                return Some(OutcomeKind::Error(error("SimulatedError", rule.status, message)));
            }
        }
        if let Some(model) = options.model.as_deref().filter(|model| *model != &*request.model) {
            let message = format!("HTTP 404 Not Found: the model `{}` does not exist, only `{model}`", request.model);
            return Some(OutcomeKind::Error(error("NotFoundError", 404, message)));
        }
        let message = overflow(options.context_limit, prompt_tokens, meta.max_tokens)?;
        Some(OutcomeKind::Overflow(error("BadRequestError", 400, format!("HTTP 400 Bad Request: {message}"))))
    }
}

fn refused(meta: &DispatchMeta, kind: OutcomeKind, at: Nanos) -> Outcome {
    let mut outcome = Outcome::without_response(meta.key, kind, at, at);
    outcome.head = Some(at);
    outcome.status = outcome.error().and_then(|error| u16::try_from(error.code?).ok());
    outcome
}

fn answer(meta: &DispatchMeta, answered: Answered, start: Nanos, streaming: bool) -> Outcome {
    let Answered { admitted, cached, mut times } = answered;
    let end = times.last().copied().unwrap_or(admitted);
    if !streaming {
        times = vec![end];
    }
    let first = times.first().copied();
    Outcome {
        head: Some(if streaming { admitted } else { end }),
        first_output: first,
        status: Some(200),
        usage: Some(Usage { cache_read: Some(cached), ..Usage::default() }),
        http: HttpTiming {
            send_start: Some(start),
            send_end: Some(start),
            first_byte: Some(if streaming { admitted } else { end }),
            last_byte: Some(end),
            chunks_received: times.len() as u32,
            ..HttpTiming::default()
        },
        content_times: times,
        ..Outcome::without_response(meta.key, OutcomeKind::Ok, start, end)
    }
}
