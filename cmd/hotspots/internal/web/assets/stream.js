// What a program does to memory, as it comes: docs/web.md, "What is watched".
import { parts, socket } from "./api.js";

const protocol = "hotspots.memory.2";
const again = [250, 500, 1000, 2000]; // ms until it is tried again

// Stream is a WebSocket, and another one when that is gone, until it is closed.
export class Stream {
  constructor(id, onFrame, onTrouble) {
    Object.assign(this, { id, onFrame, onTrouble, view: null, tries: 0 });
    this.open();
  }

  open() {
    const s = socket(`tables/${this.id}/memory/live`, protocol);
    this.socket = s;
    s.onopen = () => { if (this.view) s.send(this.view); };
    s.onmessage = ({ data }) => {
      this.tries = 0;
      const { head, start } = parts(data);
      this.onFrame(head, data, start);
    };
    s.onclose = ({ code, reason }) => {
      if (this.socket !== s) return;
      if (code === 1008 || code === 1003) return this.onTrouble(`It does not understand this page: ${reason}`);
      this.onTrouble(this.tries > 1 ? "hotspots web does not answer: what is shown stays" : "");
      this.timer = setTimeout(() => this.open(), again[Math.min(this.tries++, again.length - 1)]);
    };
  }

  // see says what is seen from now on.
  see(view) {
    this.view = JSON.stringify(view);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(this.view);
  }

  close() {
    clearTimeout(this.timer);
    const s = this.socket;
    this.socket = null;
    s.close();
  }
}
