//! The scripted model, and the tool that it calls after words but not after a result.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use infinity_agent_core::message::{InputMessage, InputMessageContent};
use infinity_agent_core::tools::{Tool, ToolContext};
use infinity_agent_core::traits::InputSender;
use infinity_provider_protocol::{
    CompletionError, CompletionRequest, FinalResponse, Message, ModelEntry, ModelProvider, ModelStream,
    StreamChunk, ToolCall, ToolResult, ToolResultContent, Usage, UserContent,
};
use rap_protocol::{ProviderCallId, ToolCallId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Work;

const MODEL: &str = "scripted";

/// The only model: no window, so that nothing is ever summed up.
pub fn entry() -> ModelEntry {
    ModelEntry {
        model_id: MODEL.into(),
        display_name: MODEL.into(),
        context_window: 0,
        max_output_tokens: None,
        supports_image_input: false,
    }
}

/// Answers in pieces; takes its texts one after the other.
pub struct Scripted {
    work: Arc<Work>,
    asked: AtomicUsize,
}

impl Scripted {
    pub fn new(work: Arc<Work>) -> Self {
        Scripted { work, asked: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl ModelProvider for Scripted {
    async fn list_models(&self) -> Result<Vec<ModelEntry>, Box<dyn Error + Send + Sync>> {
        Ok(vec![entry()])
    }

    async fn invoke_model(
        &self,
        _model: &str,
        request: CompletionRequest,
    ) -> Result<ModelStream, CompletionError> {
        let told = matches!(
            request.chat_history.last(),
            Some(Message::User { content }) if matches!(content.last(), Some(UserContent::ToolResult(_)))
        );
        let place = self.asked.fetch_add(1, Ordering::Relaxed) % self.work.pieces.len();
        let work = self.work.clone();
        Ok(Box::pin(async_stream::stream! {
            for piece in &work.pieces[place] {
                yield Ok(StreamChunk::Text(piece.clone()));
            }
            if !told {
                let arguments = json!({"command": "cargo test --workspace"});
                yield Ok(StreamChunk::ToolCall(ToolCall::new(
                    Uuid::new_v4().to_string(), "run_command", arguments,
                )));
            }
            yield Ok(StreamChunk::Final(FinalResponse { usage: Some(Usage::default()) }));
        }))
    }
}

/// Prints its text at once, as a message to the thread that called it.
pub struct RunCommand {
    work: Arc<Work>,
    /// How often each thread has called.
    calls: Mutex<HashMap<String, usize>>,
}

impl RunCommand {
    pub fn new(work: Arc<Work>) -> Self {
        RunCommand { work, calls: Mutex::new(HashMap::new()) }
    }

    fn output(&self, thread: &str) -> String {
        if self.work.outputs.len() == 1 {
            return self.work.outputs[0].clone();
        }
        let mut calls = self.calls.lock().expect("nobody panics with it");
        let count = calls.entry(thread.to_owned()).or_insert(thread.len());
        *count += 1;
        self.work.outputs[*count % self.work.outputs.len()].clone()
    }
}

#[async_trait]
impl<M: InputSender + 'static> Tool<M> for RunCommand
where
    M::Error: 'static,
{
    fn name(&self) -> &str {
        "run_command"
    }

    fn description(&self) -> &str {
        "Run a command and give what it prints."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        })
    }

    async fn execute(
        &self,
        _args: Value,
        id: ToolCallId,
        call_id: Option<ProviderCallId>,
        context: &ToolContext<M>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let result = ToolResult {
            id: id.as_str().to_owned(),
            call_id: call_id.map(|call| call.into_inner()),
            content: vec![ToolResultContent::text(self.output(context.group_id.as_str()))],
        };
        let news = InputMessage {
            content: InputMessageContent::User(UserContent::ToolResult(result)),
            group_id: context.group_id.clone(),
            metadata: None,
            synthetic: None,
            display_as: None,
            subscription: false,
        };
        context.message_sender.send_to_input_queue(news, &Uuid::new_v4().to_string()).await?;
        Ok(())
    }
}
