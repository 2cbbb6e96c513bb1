// The console: commands that read, as one user.

import { $, make } from './draw.js';

const MOST_TYPED = 200; // pieces of the output

export function startConsole(ask) {
  const typed = []; // lines
  let recalled = 0; // which of them the arrow keys are at
  const output = $('output');
  const print = (kind, text) => output.append(make('span', { class: kind }, text.replace(/\n?$/, '\n')));

  $('ask').addEventListener('submit', async (e) => {
    e.preventDefault();
    const line = $('line').value;
    if (!line.trim()) {
      return;
    }
    typed.push(line);
    recalled = typed.length;
    $('line').value = '';
    print('typed', `> ${line}`);
    try {
      const answer = await ask('/live/console', { line });
      print(answer.error ? 'wrong' : 'reply', answer.text);
    } catch (error) {
      print('wrong', error.message);
    }
    while (output.childNodes.length > MOST_TYPED) {
      output.firstChild.remove();
    }
    output.scrollTop = output.scrollHeight;
  });

  $('line').addEventListener('keydown', (e) => {
    const move = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (move && typed.length) {
      e.preventDefault();
      recalled = Math.min(typed.length, Math.max(0, recalled + move));
      $('line').value = typed[recalled] || '';
    }
    if (e.key === 'Escape') {
      $('line').blur();
    }
  });
}
