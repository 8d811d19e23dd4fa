"""What the voice reads: sentences to calibrate with, and others to judge by."""

CALIBRATION = """\
Please open the window and let some air in.
She bought three apples and a loaf of bread.
The train leaves at seven in the morning.
We walked along the river until it was dark.
He forgot his keys on the kitchen table.
A small dog was sleeping under the chair.
Could you tell me the way to the station?
The weather will be warm and dry tomorrow.
My brother plays the piano every evening.
There are twelve eggs in the blue basket.
I have never seen such a beautiful garden.
The doctor asked her to rest for a week.
Turn left at the church and then go straight on.
They painted the old house white and green.
Nobody knew what had happened to the ship.
The children are building a castle of sand.""".splitlines()
