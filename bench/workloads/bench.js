// What scripts for node do: calls, objects, strings, patterns, closures, sorting, JSON,
// errors that are caught, promises. node bench.js SIZE
'use strict'
const size = Number(process.argv[2] ?? 1)

let seed = 42
const random = n => (seed = (seed * 1103515 + 12345) % 2147483648) % n

const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2)

class Account {
	constructor(balance) { this.balance = balance }
	withdraw(n) {
		if (n > this.balance) throw new Error('insufficient funds')
		this.balance -= n
	}
}

function words() {
	let text = ''
	for (let i = 0; i < 400; i++) text += String.fromCharCode(97 + random(26)) + (random(5) === 0 ? ' ' : '')
	const counts = new Map()
	for (const w of text.split(/\s+/)) counts.set(w, (counts.get(w) ?? 0) + 1)
	return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).length + text.replace(/[aeiou]/g, '').length
}

function records() {
	const all = []
	for (let i = 0; i < 100; i++) all.push({ id: i, name: `record ${random(1000)}`, values: [random(10), random(10)] })
	const back = JSON.parse(JSON.stringify(all))
	return back.filter(r => r.values[0] > 3).reduce((sum, r) => sum + r.name.length, 0)
}

function accounts() {
	let refused = 0
	const a = new Account(1000)
	for (let i = 0; i < 100; i++) try { a.withdraw(random(50)) } catch { refused++ }
	return refused
}

async function main() {
	let sum = 0
	for (let i = 0; i < size; i++) {
		sum += fib(15) + words() + records() + accounts()
		sum += Buffer.from(await Promise.resolve(String(sum))).toString('base64').length
	}
	console.log(sum)
}
main()
